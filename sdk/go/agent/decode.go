package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// decode reads a JSON object. Its errors say where in the document something is, and what is wrong with it.
func decode(what string, body []byte, into any) error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return fmt.Errorf("decode %s: the body is empty", what)
	}
	err := json.Unmarshal(body, into)
	var broken *json.SyntaxError
	switch {
	case errors.As(err, &broken):
		return fmt.Errorf("decode %s: not JSON at byte %d: %w", what, broken.Offset, err)
	case err == nil && trimmed[0] == '{':
		return nil
	}
	tree := treeOf(body)
	if _, isObject := tree.(map[string]any); !isObject {
		return fmt.Errorf("decode %s: $: is %s in the place of an object", what, shortly(tree))
	}
	where, why := misfit(reflect.TypeOf(into).Elem(), tree, "$")
	if why == "" {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	return fmt.Errorf("decode %s: %s: %s", what, where, why)
}

// treeOf returns a document that is known to be JSON, with its numbers as they are written.
func treeOf(body []byte) any {
	reader := json.NewDecoder(bytes.NewReader(body))
	reader.UseNumber()
	var tree any
	_ = reader.Decode(&tree)
	return tree
}

// misfit returns the first place where a document does not fit a type, and why; "" for why if there is none. It is asked
// only once something is known to be wrong.
func misfit(wanted reflect.Type, found any, where string) (string, string) {
	for wanted.Kind() == reflect.Pointer {
		wanted = wanted.Elem()
	}
	if found == nil || wanted == rawType || wanted.Kind() == reflect.Interface {
		return where, ""
	}
	if wanted == timeType {
		text, isText := found.(string)
		if _, err := time.Parse(time.RFC3339, text); !isText || err != nil {
			return where, fmt.Sprintf("is %s in the place of a time", shortly(found))
		}
		return where, ""
	}
	switch wanted.Kind() {
	case reflect.Struct:
		return misfitObject(wanted, found, where)
	case reflect.Slice:
		items, ok := found.([]any)
		if !ok {
			return where, fmt.Sprintf("is %s in the place of a list", shortly(found))
		}
		for place, item := range items {
			if at, why := misfit(wanted.Elem(), item, fmt.Sprintf("%s[%d]", where, place)); why != "" {
				return at, why
			}
		}
	case reflect.Map:
		fields, ok := found.(map[string]any)
		if !ok {
			return where, fmt.Sprintf("is %s in the place of an object", shortly(found))
		}
		for name, item := range fields {
			if at, why := misfit(wanted.Elem(), item, where+"."+name); why != "" {
				return at, why
			}
		}
	default:
		return misfitPlain(wanted, found, where)
	}
	return where, ""
}

func misfitObject(wanted reflect.Type, found any, where string) (string, string) {
	fields, ok := found.(map[string]any)
	if !ok {
		return where, fmt.Sprintf("is %s in the place of an object", shortly(found))
	}
	for _, field := range reflect.VisibleFields(wanted) {
		name, _, skipped := wireName(field)
		if skipped || field.Anonymous {
			continue
		}
		if at, why := misfit(field.Type, fields[name], where+"."+name); why != "" {
			return at, why
		}
	}
	return where, ""
}

func misfitPlain(wanted reflect.Type, found any, where string) (string, string) {
	encoded, err := json.Marshal(found)
	if err == nil && json.Unmarshal(encoded, reflect.New(wanted).Interface()) == nil {
		return where, ""
	}
	name := map[reflect.Kind]string{
		reflect.String: "a text", reflect.Bool: "true or false", reflect.Float64: "a number", reflect.Float32: "a number",
	}[wanted.Kind()]
	return where, fmt.Sprintf("is %s in the place of %s", shortly(found), firstOf(name, "a whole number"))
}

func shortly(found any) string {
	switch value := found.(type) {
	case string:
		if runes := []rune(value); len(runes) > 40 {
			value = string(runes[:40]) + "..."
		}
		return fmt.Sprintf("%q", value)
	case json.Number, bool:
		return fmt.Sprint(value)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "null"
	}
}
