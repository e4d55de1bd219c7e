package agent

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// SchemaOf returns the JSON Schema that is made from a type. A type that stands inside itself is any object there.
func SchemaOf[T any]() map[string]any { return schemaOf(reflect.TypeFor[T](), nil) }

func schemaText(wanted reflect.Type) json.RawMessage {
	schema := schemaOf(wanted, nil)
	if len(schema) == 0 {
		return nil
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil
	}
	return text
}

func schemaOf(wanted reflect.Type, around []reflect.Type) map[string]any {
	for wanted.Kind() == reflect.Pointer {
		wanted = wanted.Elem()
	}
	switch {
	case wanted == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case implements(wanted, textMarshaler) && !implements(wanted, marshaler):
		return map[string]any{"type": "string"}
	case wanted == rawType || implements(wanted, marshaler):
		return map[string]any{}
	}
	switch wanted.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if wanted.Elem().Kind() == reflect.Uint8 && wanted.Kind() == reflect.Slice {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return withPart(map[string]any{"type": "array"}, "items", schemaOf(wanted.Elem(), around))
	case reflect.Map:
		return withPart(map[string]any{"type": "object"}, "additionalProperties", schemaOf(wanted.Elem(), around))
	case reflect.Struct:
		if slices.Contains(around, wanted) {
			return map[string]any{"type": "object"}
		}
		return structSchema(wanted, append(around, wanted))
	}
	return map[string]any{}
}

func structSchema(wanted reflect.Type, around []reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, field := range wireFields(wanted) {
		name, optional, _ := wireName(field)
		property := schemaOf(field.Type, around)
		describe(property, field)
		if strings.Contains(field.Tag.Get("json"), ",string") {
			property = quoted(property)
		}
		if field.Type.Kind() == reflect.Pointer {
			orNull(property)
		}
		properties[name] = property
		_, hasDefault := field.Tag.Lookup("default")
		if !optional && !hasDefault && field.Type.Kind() != reflect.Pointer {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// describe adds what the tags of a field say.
func describe(property map[string]any, field reflect.StructField) {
	if text := field.Tag.Get("description"); text != "" {
		property["description"] = text
	}
	if text, ok := field.Tag.Lookup("default"); ok {
		if value, err := tagValue(field.Type, text); err == nil {
			property["default"] = value.Interface()
		}
	}
	if text := field.Tag.Get("enum"); text != "" {
		one, of := property, field.Type
		if items, ok := property["items"].(map[string]any); ok { // of a list, each of its items
			one, of = items, of.Elem()
		}
		one["enum"] = enumValues(of, text)
	}
	for _, name := range []string{"minimum", "maximum"} {
		if number, err := strconv.ParseFloat(field.Tag.Get(name), 64); err == nil {
			property[name] = number
		}
	}
}

func enumValues(wanted reflect.Type, text string) []any {
	values := []any{}
	for _, one := range strings.Split(text, ",") {
		if value, err := tagValue(wanted, strings.TrimSpace(one)); err == nil {
			values = append(values, value.Interface())
		}
	}
	return values
}

// quoted returns the schema of a number or truth value that is written as a text.
func quoted(property map[string]any) map[string]any {
	made := map[string]any{"type": "string"}
	if text, ok := property["description"]; ok {
		made["description"] = text
	}
	if value, ok := property["default"]; ok {
		made["default"] = fmt.Sprint(value)
	}
	return made
}

// orNull lets a property be null, as which a nil pointer is written.
func orNull(property map[string]any) {
	if kind, ok := property["type"].(string); ok {
		property["type"] = []string{kind, "null"}
	}
	if values, ok := property["enum"].([]any); ok {
		property["enum"] = append(values, nil)
	}
}

// wireFields returns the fields of a struct that are in its JSON, those of embedded structs among them.
func wireFields(wanted reflect.Type, around ...reflect.Type) []reflect.StructField {
	var found []reflect.StructField
	for place := range wanted.NumField() {
		field := wanted.Field(place)
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if field.Anonymous && field.Tag.Get("json") == "" && inner.Kind() == reflect.Struct && !slices.Contains(around, inner) {
			for _, deeper := range wireFields(inner, append(around, wanted)...) {
				deeper.Index = append(append([]int{}, field.Index...), deeper.Index...)
				found = append(found, deeper)
			}
			continue
		}
		if _, _, skipped := wireName(field); !skipped {
			found = append(found, field)
		}
	}
	return outermost(found)
}

// outermost leaves of fields with one name the one that encoding/json takes: the least embedded, if there is one such.
func outermost(fields []reflect.StructField) []reflect.StructField {
	rivals := map[string][]reflect.StructField{}
	for _, field := range fields {
		name, _, _ := wireName(field)
		rivals[name] = append(rivals[name], field)
	}
	return slices.DeleteFunc(fields, func(field reflect.StructField) bool {
		name, _, _ := wireName(field)
		return slices.ContainsFunc(rivals[name], func(other reflect.StructField) bool {
			return !slices.Equal(other.Index, field.Index) && !outranks(field, other)
		})
	})
}

func outranks(field, other reflect.StructField) bool {
	if len(field.Index) != len(other.Index) {
		return len(field.Index) < len(other.Index)
	}
	return field.Tag.Get("json") != "" && other.Tag.Get("json") == ""
}

// wireName returns what a field is called in JSON, whether it may be left out, and whether it is not there at all.
func wireName(field reflect.StructField) (name string, optional, skipped bool) {
	tag := field.Tag.Get("json")
	if !field.IsExported() || tag == "-" {
		return "", false, true
	}
	name, rest, _ := strings.Cut(tag, ",")
	optional = strings.Contains(","+rest+",", ",omitempty,") || strings.Contains(","+rest+",", ",omitzero,")
	return firstOf(name, field.Name), optional, false
}

// fillDefaults sets the fields of a struct that have a default.
func fillDefaults(value reflect.Value) error {
	if value.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range wireFields(value.Type()) {
		into, err := value.FieldByIndexErr(field.Index)
		if err != nil {
			continue // inside an embedded pointer that is nil
		}
		text, ok := field.Tag.Lookup("default")
		if !ok {
			if err := fillDefaults(into); err != nil {
				return err
			}
			continue
		}
		given, err := tagValue(field.Type, text)
		if err != nil {
			return fmt.Errorf("the default of %s: %w", field.Name, err)
		}
		into.Set(given)
	}
	return nil
}

// tagValue reads a value of a type out of a tag: JSON, or a plain text for what is a text.
func tagValue(wanted reflect.Type, text string) (reflect.Value, error) {
	made := reflect.New(wanted)
	err := json.Unmarshal([]byte(text), made.Interface())
	if err != nil {
		quoted, _ := json.Marshal(text)
		if json.Unmarshal(quoted, made.Interface()) != nil {
			return made.Elem(), err
		}
	}
	return made.Elem(), nil
}

// takesObject says whether a JSON object can be read into a type.
func takesObject(wanted reflect.Type) bool {
	for wanted.Kind() == reflect.Pointer {
		wanted = wanted.Elem()
	}
	switch wanted.Kind() {
	case reflect.Struct:
		return wanted != timeType
	case reflect.Map:
		return wanted.Key().Kind() == reflect.String
	case reflect.Interface:
		return wanted.NumMethod() == 0
	}
	return wanted == rawType || implements(wanted, reflect.TypeFor[json.Unmarshaler]())
}

func withPart(schema map[string]any, name string, part map[string]any) map[string]any {
	if len(part) > 0 {
		schema[name] = part
	}
	return schema
}

func implements(wanted, what reflect.Type) bool {
	return wanted.Implements(what) || reflect.PointerTo(wanted).Implements(what)
}
