package agent

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const examples = "../../../contract/examples"

// golden returns the examples of the contract that match a pattern. Outside the repository there are none.
func golden(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	if _, err := os.Stat(examples); err != nil {
		t.Skip("the contract is not here")
	}
	files, err := filepath.Glob(filepath.Join(examples, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example matches %s: %v", pattern, err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = text
	}
	return found
}

func answering(text []byte, kind string) *answer {
	return &answer{status: 200, header: http.Header{"Content-Type": {kind}}, body: text, at: time.Now()}
}

// same compares two documents as JSON; a time is the same however many zeros it ends with.
func same(t *testing.T, name string, given []byte, made any) {
	t.Helper()
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var want, got any
	if err := errors.Join(json.Unmarshal(given, &want), json.Unmarshal(text, &got)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if want, got := timesAlike(want), timesAlike(got); !reflect.DeepEqual(want, got) {
		t.Errorf("%s: got %s", name, text)
	}
}

func timesAlike(value any) any {
	switch found := value.(type) {
	case string:
		if at, err := time.Parse(time.RFC3339, found); err == nil {
			return at.UTC().String()
		}
	case []any:
		for place := range found {
			found[place] = timesAlike(found[place])
		}
	case map[string]any:
		for name := range found {
			found[name] = timesAlike(found[name])
		}
	}
	return value
}

func TestTheJSONOfTheContractIsReadWithoutLoss(t *testing.T) {
	for name, text := range golden(t, "discovery-json*.json") {
		found, err := readDiscovery(answering(text, "application/json"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, name, text, found)
	}
}

func TestTheCompactFormOfTheContractIsReadWithoutLoss(t *testing.T) {
	for name, text := range golden(t, "discovery-compact*.json") {
		found, err := readDiscovery(answering(text, "application/json"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, name, text, found.Compact)
		if found.TotalReasoners != len(found.Compact.Reasoners) || targets(found) != compactTargets(found.Compact) {
			t.Errorf("%s: %s is not %s", name, targets(found), compactTargets(found.Compact))
		}
	}
}

func TestTheXMLOfTheContractIsPrintedAsItIs(t *testing.T) {
	for name, text := range golden(t, "discovery-*.xml") {
		found, err := readDiscovery(answering(text, "application/xml"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if found.String() != string(text) || found.DiscoveredAt.IsZero() {
			t.Errorf("%s: got %s", name, found)
		}
		if strings.Count(string(text), " target=") != strings.Count(targets(found), "\n") || found.TotalAgents != len(found.Capabilities) {
			t.Errorf("%s: got %s of %d agents", name, targets(found), found.TotalAgents)
		}
	}
}

func TestTheErrorsOfTheContractAreReadWithoutLoss(t *testing.T) {
	for name, text := range golden(t, "error-*.json") {
		got := answering(text, "application/json")
		got.status = 400
		read := newAPIError(got, func(text string) string { return text })
		made := map[string]any{"error": read.Code, "message": read.Message, "request_id": read.RequestID}
		if read.Details != nil {
			made["details"] = read.Details
		}
		same(t, name, text, made)
	}
}

func TestTheExecutionsOfTheContractAreReadWithoutLoss(t *testing.T) {
	for _, name := range []string{
		"execute-response.json", "execute-failed-response.json", "execute-async-response.json", "execution-running.json",
		"execution-succeeded.json",
	} {
		text := golden(t, name)[name]
		found, err := readExecution(answering(text, "application/json"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, name, text, found)
	}
	request := golden(t, "execute-request.json")["execute-request.json"]
	body, err := ExecuteRequest{
		Target: "a:b",
		Input:  map[string]any{"query": "AI trends 2025"},
		Webhook: &Webhook{
			URL: "https://orders.example.com/done", Secret: "open-sesame", Headers: map[string]string{"X-Order": "17"},
		},
	}.body()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "execute-request.json", request, json.RawMessage(body))
}

func TestTheQuestionsOfTheContractGetTheirAnswers(t *testing.T) {
	var asked []struct {
		Method string         `json:"method"`
		Path   string         `json:"path"`
		Query  map[string]any `json:"query"`
		Status int            `json:"status"`
		Answer string         `json:"answer"`
	}
	if err := json.Unmarshal(golden(t, "discovery-requests.json")["discovery-requests.json"], &asked); err != nil {
		t.Fatal(err)
	}
	for _, one := range asked {
		if one.Method != http.MethodGet || one.Path != discoveryPath {
			continue
		}
		text := golden(t, one.Answer)[one.Answer]
		server := newPlane(t, func(w http.ResponseWriter, _ seen) {
			if strings.HasSuffix(one.Answer, ".xml") {
				w.Header().Set("Content-Type", "application/xml")
			}
			w.WriteHeader(one.Status)
			_, _ = w.Write(text)
		})
		options, want := []DiscoverArgument{}, url.Values{}
		for name, value := range one.Query {
			words, _ := value.(string)
			options = append(options, parameter(name, words))
			want.Set(name, words)
		}

		found, err := server.app().Discover(options...)

		if got := server.got("")[0]; got.query != want.Encode() {
			t.Errorf("%s: asked %s", one.Answer, got.query)
		}
		var refused *APIError
		switch {
		case one.Status == 200 && (err != nil || found.String() != string(text)):
			t.Errorf("%s: got %v", one.Answer, err)
		case one.Status != 200 && (!errors.As(err, &refused) || refused.Status != one.Status):
			t.Errorf("%s: got %v", one.Answer, err)
		}
	}
}

func targets(found *DiscoveryResponse) string {
	var reasoners, skills string
	for _, owner := range found.Capabilities {
		for _, one := range owner.Reasoners {
			reasoners += one.InvocationTarget + "\n"
		}
		for _, one := range owner.Skills {
			skills += one.InvocationTarget + "\n"
		}
	}
	return reasoners + skills
}

func compactTargets(compact *CompactDiscovery) string {
	var all string
	for _, one := range append(append([]CompactCapability{}, compact.Reasoners...), compact.Skills...) {
		all += one.Target + "\n"
	}
	return all
}
