package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWhatIsWrongWithAnAnswerIsSaidWithItsPlace(t *testing.T) {
	agentWith := func(text string) string {
		return `{"total_agents":1,"capabilities":[{"agent_id":"a"},{` + text + `}]}`
	}
	for body, want := range map[string]string{
		``:                        "the body is empty",
		`  `:                      "the body is empty",
		`<html>`:                  "not JSON at byte 1",
		`{"capabilities":[`:       "not JSON at byte 17",
		`null`:                    "$: is null in the place of an object",
		`[1]`:                     "$: is a list in the place of an object",
		`"text"`:                  `$: is "text" in the place of an object`,
		`7`:                       "$: is 7 in the place of an object",
		`{}`:                      "$: has neither capabilities nor reasoners and skills",
		`{"capabilities":{}}`:     "$.capabilities: is an object in the place of a list",
		`{"capabilities":[7]}`:    "$.capabilities[0]: is 7 in the place of an object",
		`{"total_agents":"many"}`: `$.total_agents: is "many" in the place of a whole number`,
		`{"total_agents":1.5}`:    "$.total_agents: is 1.5 in the place of a whole number",
		`{"total_agents":1e400}`:  "1e400",
		`{"total_agents":1,"discovered_at":"yesterday"}`:                `$.discovered_at: is "yesterday" in the place of a time`,
		`{"total_agents":1,"pagination":{"has_more":"no"}}`:             `$.pagination.has_more: is "no" in the place of true or false`,
		agentWith(`"agent_id":7`):                                       "$.capabilities[1].agent_id: is 7 in the place of a text",
		agentWith(`"last_heartbeat":""`):                                `$.capabilities[1].last_heartbeat: is "" in the place of a time`,
		agentWith(`"reasoners":[{"id":"x"},{"tags":["y",false]}]`):      "$.capabilities[1].reasoners[1].tags[1]: is false in the place of a text",
		agentWith(`"skills":[{"input_schema":[]}]`):                     "$.capabilities[1].skills[0].input_schema: is a list in the place of an object",
		agentWith(`"reasoners":[{"examples":[1]}]`):                     "$.capabilities[1].reasoners[0].examples[0]: is 1 in the place of an object",
		`{"reasoners":[{"id":[]}],"skills":[]}`:                         "$.reasoners[0].id: is a list in the place of a text",
		`{"reasoners":[],"skills":[],"discovered_at":12}`:               "$.discovered_at: is 12 in the place of a time",
		`{"total_agents":1,"discovered_at":"` + strings.Repeat("x", 99): "not JSON at byte",
	} {
		_, err := readDiscovery(answering([]byte(body), "application/json"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestXMLThatIsNoneIsSaidWithItsPlace(t *testing.T) {
	for body, want := range map[string]string{
		``:                                       "EOF",
		`{"a":1}`:                                "EOF",
		"<discovery>\n<agent>\n</discovery>":     "line 3",
		`<discovery discovered_at="yesterday"/>`: `discovered_at is "yesterday" in the place of a time`,
		`<discovery><summary total_agents="many"/></discovery>`:         `"many"`,
		`<discovery><agent id="a" last_heartbeat="never"/></discovery>`: `last_heartbeat is "never" in the place of a time`,
	} {
		_, err := readDiscovery(answering([]byte(body), "application/xml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestMissingAndNullPartsAreEmpty(t *testing.T) {
	for _, body := range []string{
		`{"total_agents":0,"capabilities":null}`,
		`{"capabilities":[{"agent_id":"a","reasoners":null,"skills":null}]}`,
		`{"capabilities":[{"skills":[{"tags":null,"description":null,"input_schema":null}]}]}`,
		`{"reasoners":null,"skills":null}`,
		`{"skills":[null]}`,
		`{"capabilities":[null]}`,
		`{"total_agents":1,"unknown":{"deep":[1]},"discovered_at":"2026-11-15T00:19:14.924058346Z"}`,
	} {
		found, err := readDiscovery(answering([]byte(body), "application/json"))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if text, err := json.Marshal(found); err != nil || strings.Contains(string(text), "null") {
			t.Errorf("%s: %s, %v", body, text, err)
		}
	}
}

// values are what can stand anywhere in a document.
var values = []string{
	`null`, `true`, `0`, `-1`, `1.5`, `1e99`, `99999999999999999999`, `""`, `"x"`, `"\ud800"`, `[]`, `[null]`, `[[]]`, `{}`, `{"a":{}}`,
	`"2026-11-15T10:30:00Z"`, `"0001-01-01T00:00:00Z"`, `[{"id":1}]`, `[{"id":"x","tags":"y"}]`, "\"\x00\"", "\xff",
}

func TestNoValueInAnyPlaceIsACrash(t *testing.T) {
	documents := []string{
		`%s`,
		`{"discovered_at":%s,"total_agents":1}`,
		`{"total_agents":%s}`,
		`{"pagination":%s,"total_agents":1}`,
		`{"capabilities":%s}`,
		`{"capabilities":[%s]}`,
		`{"reasoners":%s,"skills":[]}`,
		`{"reasoners":[{"id":"a","agent_id":%s,"target":"t"}],"skills":[]}`,
		`{"capabilities":[{"agent_id":"a","last_heartbeat":%s}]}`,
		`{"capabilities":[{"agent_id":"a","reasoners":[{"id":"b","input_schema":%s}]}]}`,
		`{"execution_id":%s,"status":"failed"}`,
		`{"execution_id":"e","status":%s}`,
		`{"execution_id":"e","status":"failed","error":%s}`,
		`{"execution_id":"e","status":"failed","error_details":%s}`,
		`{"execution_id":"e","status":"failed","result":%s}`,
		`{"error":%s,"message":"m","details":{"execution_id":%s}}`,
		`{"error":"e","message":%s,"details":%s}`,
	}
	for _, document := range documents {
		for _, value := range values {
			readAnything(t, []byte(strings.ReplaceAll(document, "%s", value)))
		}
	}
	readAnything(t, []byte(strings.Repeat("[", 100_000)))
	readAnything(t, []byte(`{"capabilities":[{"reasoners":[{"input_schema":`+strings.Repeat(`{"a":`, 9_990)))
}

// readAnything reads one body as everything that a server could have meant by it, and prints what it finds.
func readAnything(t *testing.T, body []byte) {
	t.Helper()
	for _, kind := range []string{"application/json", "application/xml"} {
		found, err := readDiscovery(answering(body, kind))
		if (found == nil) == (err == nil) {
			t.Fatalf("%q: neither an answer nor an error, or both", body)
		}
		if found != nil {
			if _, err := json.Marshal(found); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			_ = found.String() + nextQuery(found, nil)
		}
	}
	for _, status := range []int{200, 202, 400, 404, 502, 503, 504} {
		got := answering(body, "application/json")
		got.status = status
		if found, err := outcome(readExecution(got)); found != nil {
			_, _ = fmt.Sprint(found, err), found.Decode(new(any))
			if err != nil && err.Error() == "" {
				t.Fatalf("%q: an error that says nothing", body)
			}
		}
		_, _ = retryPause(request{repeat: true}, got, nil, 3)
		if said := newAPIError(got, strings.ToLower).Error(); !strings.Contains(said, fmt.Sprint(status)) {
			t.Fatalf("%q: %s", body, said)
		}
	}
}

func FuzzAnyBody(f *testing.F) {
	for _, pattern := range []string{"discovery-*.json", "discovery-*.xml", "error-*.json", "exec*.json"} {
		for _, text := range golden(f, pattern) {
			f.Add(text)
		}
	}
	for _, value := range values {
		f.Add([]byte(value))
	}
	f.Fuzz(readAnything)
}

func FuzzAnyHeader(f *testing.F) {
	f.Add(`</a?limit=1&offset=1>; rel="next"`, "7", "Sun, 15 Nov 2026 10:30:03 GMT", "3", "110 x")
	f.Add("<", "-1", "never", "99999999999999999999", "")
	f.Add(">;,<?>;rel=next", "1e9", "", "-5", "199")
	f.Fuzz(func(t *testing.T, link, total, date, age, warning string) {
		got := answering([]byte(page), "application/json")
		for name, value := range map[string]string{
			"Link": link, "X-Total-Count": total, "Date": date, "Age": age, "Warning": warning, "Retry-After": age,
		} {
			got.header.Set(name, value)
		}
		found, err := readDiscovery(got)
		if err != nil || found.Freshness.Age < 0 {
			t.Fatalf("got %+v, %v", found, err)
		}
		got.status = http.StatusServiceUnavailable
		if pause, _ := retryPause(request{repeat: true}, got, nil, 0); pause < 0 || pause > 12*24*time.Hour {
			t.Fatalf("a pause of %s", pause)
		}
	})
}
