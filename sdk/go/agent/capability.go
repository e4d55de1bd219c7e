package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
)

type kind string

const (
	reasoner kind = "reasoner"
	skill    kind = "skill"
)

// capability is one reasoner or skill of this agent.
type capability struct {
	kind        kind
	id          string
	description string
	tags        []string
	input       json.RawMessage
	output      json.RawMessage
	examples    []map[string]any
	// prepare reads an input, and returns what runs it.
	prepare func(input []byte) (func(context.Context) (any, error), error)
	problem error
}

// CapabilityOption says something of a reasoner or skill.
type CapabilityOption func(*capability)

// Description says what it does, for people and models.
func Description(text string) CapabilityOption { return func(c *capability) { c.description = text } }

// Tags are words it can be found by.
func Tags(tags ...string) CapabilityOption {
	return func(c *capability) { c.tags = append(c.tags, tags...) }
}

// InputSchema sets the JSON Schema of the input, in the place of the one made from its type: a text, or anything that
// encodes as JSON.
func InputSchema(schema any) CapabilityOption {
	return func(c *capability) { c.input = c.schema("input", schema) }
}

// OutputSchema sets the JSON Schema of the result, in the place of the one made from its type.
func OutputSchema(schema any) CapabilityOption {
	return func(c *capability) { c.output = c.schema("output", schema) }
}

// Example shows an input that makes sense.
func Example(name string, input any) CapabilityOption {
	return func(c *capability) { c.examples = append(c.examples, map[string]any{"name": name, "input": input}) }
}

// RegisterReasoner gives an agent a reasoner: a function that may take its time. The control plane is told at once that it
// is at work, and is told of the result when it is there, also if it was away meanwhile.
//
// In is a struct, whose fields and their tags make the input schema, or a map. Known tags beside json are description,
// default, enum (separated by commas), minimum and maximum; a field is required unless it is a pointer, has a default or
// omitempty. Out is anything that encodes as JSON. What is wrong with it is said by [Agent.Serve].
func RegisterReasoner[In, Out any](
	app *Agent, id string, run func(context.Context, In) (Out, error), options ...CapabilityOption,
) {
	app.add(newCapability(reasoner, id, run, options))
}

// RegisterSkill gives an agent a skill: as [RegisterReasoner], for a function that is quick. Its result is the answer to
// the call; if it takes longer than 10 s, or the connection breaks, it is told as that of a reasoner is.
func RegisterSkill[In, Out any](
	app *Agent, id string, run func(context.Context, In) (Out, error), options ...CapabilityOption,
) {
	app.add(newCapability(skill, id, run, options))
}

func newCapability[In, Out any](
	kind kind, id string, run func(context.Context, In) (Out, error), options []CapabilityOption,
) *capability {
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	made := &capability{kind: kind, id: id, input: schemaText(in), output: schemaText(out)}
	made.prepare = func(input []byte) (func(context.Context) (any, error), error) {
		var given In
		if err := fillDefaults(reflect.ValueOf(&given).Elem()); err != nil {
			return nil, err
		}
		if err := decode("the input", input, &given); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (any, error) { return run(ctx, given) }, nil
	}
	if id == "" {
		made.problem = fmt.Errorf("a %s has no id", kind)
	}
	if run == nil {
		made.problem = fmt.Errorf("%s %q: there is no function", kind, id)
	}
	if !takesObject(in) {
		made.problem = errors.Join(made.problem, fmt.Errorf("%s %q: the input is a %s, and must be a struct or a map", kind, id, in))
	}
	var given In
	if err := fillDefaults(reflect.ValueOf(&given).Elem()); err != nil {
		made.problem = errors.Join(made.problem, fmt.Errorf("%s %q: %w", kind, id, err))
	}
	for _, option := range options {
		if option != nil {
			option(made)
		}
	}
	return made
}

func (a *Agent) add(made *capability) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.capabilities {
		if other.kind == made.kind && other.id == made.id {
			a.problems = append(a.problems, fmt.Errorf("there are two %ss %q", made.kind, made.id))
			return
		}
	}
	if made.problem != nil {
		a.problems = append(a.problems, made.problem)
	}
	a.capabilities = append(a.capabilities, made)
}

func (a *Agent) find(kind kind, id string) *capability {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, found := range a.capabilities {
		if found.kind == kind && found.id == id {
			return found
		}
	}
	return nil
}

func (c *capability) schema(which string, given any) json.RawMessage {
	var text []byte
	var err error
	switch found := given.(type) {
	case string:
		text = []byte(found)
	case []byte:
		text = found
	default:
		text, err = json.Marshal(given)
	}
	var object map[string]any
	if err == nil {
		err = decode("the "+which+" schema", text, &object)
	}
	if err != nil {
		c.problem = errors.Join(c.problem, fmt.Errorf("%s %q: %w", c.kind, c.id, err))
		return nil
	}
	return text
}

// Refusal is an error that is the caller's fault: the caller gets its status, not 502.
type Refusal struct {
	// Status is from 400 to 499; any other is 400.
	Status  int
	Message string
	// Details is anything that encodes as JSON, or nil.
	Details any
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns a [*Refusal]. A status that is not from 400 to 499 becomes 400.
func Refuse(status int, format string, arguments ...any) error {
	made := &Refusal{Status: status, Message: fmt.Sprintf(format, arguments...)}
	made.Status = made.status()
	return made
}

func (r *Refusal) status() int {
	if r.Status < 400 || r.Status > 499 {
		return http.StatusBadRequest
	}
	return r.Status
}
