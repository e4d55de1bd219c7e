package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

type base struct {
	Trace string `json:"trace,omitempty"`
}

type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children,omitempty"`
}

type question2 struct {
	base
	Query   string             `json:"query" description:"Research query or topic"`
	Depth   int                `json:"depth" default:"3" minimum:"1" maximum:"5"`
	Mode    string             `json:"mode,omitempty" enum:"fast, deep"`
	Sources []string           `json:"sources,omitempty"`
	Since   *time.Time         `json:"since"`
	Weights map[string]float64 `json:"weights,omitempty"`
	Data    []byte             `json:"data,omitempty"`
	Raw     json.RawMessage    `json:"raw,omitempty"`
	Any     any                `json:"any,omitempty"`
	Size    uint               `json:"size,omitempty"`
	Exact   int64              `json:"exact,string,omitempty"`
	Tree    *tree              `json:"tree"`
	Hidden  string             `json:"-"`
	private string
}

func TestASchemaIsMadeFromAType(t *testing.T) {
	_ = question2{}.private
	same(t, "schema", []byte(`{"type":"object","required":["query"],"properties":{
		"trace":{"type":"string"},
		"query":{"type":"string","description":"Research query or topic"},
		"depth":{"type":"integer","default":3,"minimum":1,"maximum":5},
		"mode":{"type":"string","enum":["fast","deep"]},
		"sources":{"type":"array","items":{"type":"string"}},
		"since":{"type":["string","null"],"format":"date-time"},
		"weights":{"type":"object","additionalProperties":{"type":"number"}},
		"data":{"type":"string","contentEncoding":"base64"},
		"raw":{},"any":{},
		"size":{"type":"integer","minimum":0},
		"exact":{"type":"string"},
		"tree":{"type":["object","null"],"required":["name"],"properties":{
			"name":{"type":"string"},"children":{"type":"array","items":{"type":"object"}}}}}}`), SchemaOf[question2]())
	for _, one := range []struct {
		made map[string]any
		want string
	}{
		{SchemaOf[map[string]any](), `{"type":"object"}`},
		{SchemaOf[struct{}](), `{"type":"object","properties":{}}`},
		{SchemaOf[[]bool](), `{"type":"array","items":{"type":"boolean"}}`},
		{SchemaOf[any](), `{}`},
		{SchemaOf[*float32](), `{"type":"number"}`},
	} {
		same(t, one.want, []byte(one.want), one.made)
	}
}

type inner struct {
	ID   int    `json:"id" default:"7"`
	Note string `json:"note"`
}

type outer struct {
	ID string `json:"id"`
	inner
	Kinds []string `json:"kinds" enum:"a, b"`
	Mode  *string  `json:"mode" enum:"fast,deep"`
	Exact int      `json:"exact,string" default:"5"`
}

func TestASchemaFitsWhatGoWrites(t *testing.T) {
	same(t, "schema", []byte(`{"type":"object","required":["id","note","kinds"],"properties":{
		"id":{"type":"string"},
		"note":{"type":"string"},
		"kinds":{"type":"array","items":{"type":"string","enum":["a","b"]}},
		"mode":{"type":["string","null"],"enum":["fast","deep",null]},
		"exact":{"type":"string","default":"5"}}}`), SchemaOf[outer]())

	made := newCapability(skill, "s", func(_ context.Context, in outer) (outer, error) { return in, nil }, nil)
	written, _ := json.Marshal(outer{ID: "x", Exact: 6})
	run, err := made.prepare(written)
	if err != nil || made.problem != nil {
		t.Fatal(err, made.problem)
	}
	if got, _ := run(context.Background()); got.(outer).ID != "x" || got.(outer).Exact != 6 || got.(outer).Mode != nil {
		t.Errorf("got %+v", got)
	}
}

func TestAnInputIsReadWithItsDefaults(t *testing.T) {
	made := newCapability(skill, "s", func(_ context.Context, in question2) (int, error) { return in.Depth, nil }, nil)
	for input, want := range map[string]any{`{"query":"x"}`: 3, `{"query":"x","depth":5}`: 5} {
		run, err := made.prepare([]byte(input))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := run(context.Background()); got != want {
			t.Errorf("%s: got %v", input, got)
		}
	}
	_, err := made.prepare([]byte(`{"query":"x","depth":"deep"}`))
	if err == nil || err.Error() != `decode the input: $.depth: is "deep" in the place of a whole number` {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsWrongWithACapabilityIsSaidBeforeServing(t *testing.T) {
	nothing := func(context.Context, map[string]any) (any, error) { return nil, nil }
	for want, add := range map[string]func(*Agent){
		"has no id":                func(app *Agent) { RegisterSkill(app, "", nothing) },
		`there are two skills "a"`: func(app *Agent) { RegisterSkill(app, "a", nothing); RegisterSkill(app, "a", nothing) },
		"there is no function":     func(app *Agent) { RegisterReasoner[struct{}, any](app, "a", nil) },
		"must be a struct or a map": func(app *Agent) {
			RegisterSkill(app, "a", func(context.Context, string) (any, error) { return nil, nil })
		},
		"the default of N": func(app *Agent) {
			RegisterSkill(app, "a", func(context.Context, struct {
				N int `default:"x"`
			}) (any, error) {
				return nil, nil
			})
		},
		"decode the input schema":       func(app *Agent) { RegisterSkill(app, "a", nothing, InputSchema(`{"type":`)) },
		"decode the output schema":      func(app *Agent) { RegisterSkill(app, "a", nothing, OutputSchema([]int{1})) },
		"the agent has no id":           func(app *Agent) { app.identity.id = "" },
		"must be like http://localhost": func(app *Agent) { app.client.problem = NewAgent(WithServer("x")).client.problem },
	} {
		app := NewAgent(WithID("wrong"))
		add(app)
		err := app.Serve(within(t, time.Minute))
		if err == nil || !strings.HasPrefix(err.Error(), "serve: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestARefusalHasAStatusOfRefusals(t *testing.T) {
	for given, want := range map[int]int{404: 404, 200: 400, 500: 400} {
		var refused *Refusal
		if !errors.As(Refuse(given, "no %s", "tea"), &refused) || refused.Status != want || refused.Error() != "no tea" {
			t.Errorf("%d: got %+v", given, refused)
		}
	}
	for _, made := range []*Refusal{{Message: "no tea"}, {Status: 200, Message: "no tea"}} { // made by hand
		if report := reportOf(Call{}, result{err: made}); report.ErrorStatusCode != 400 {
			t.Errorf("%+v: reported %d", made, report.ErrorStatusCode)
		}
	}
}
