package conclave

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// decode decodes the body of a response below 400 into result, unless that is nil. It fails on an undeclared status or a missing
// field, so that a proxy's page does not become an empty result.
func (c *Client) decode(response *http.Response, body []byte, result any, statuses []int) error {
	if !slices.Contains(statuses, response.StatusCode) {
		wanted := strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses), " ", " or "), "[]")
		return c.unexpected(response, body, fmt.Sprintf("the response has the status %d, not %s", response.StatusCode, wanted))
	}
	if result == nil {
		return nil
	}
	if err := unmarshal(body, result); err != nil {
		failed := c.unexpected(response, body, "the response is not the JSON that the API describes")
		failed.cause = err
		return failed
	}
	return nil
}

func unmarshal(body []byte, result any) error {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	if err := json.Unmarshal(body, result); err != nil {
		return err
	}
	return checkFields(value, reflect.TypeOf(result).Elem())
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// checkFields fails if a decoded value lacks a field of its type. Unknown fields are allowed: they come from newer servers.
func checkFields(value any, decoded reflect.Type) error {
	switch {
	case decoded.Kind() == reflect.Pointer:
		if value == nil {
			return nil
		}
		return checkFields(value, decoded.Elem())
	case value == nil && decoded.Kind() != reflect.Interface:
		return errors.New("a value is missing")
	case decoded == reflect.TypeFor[DestinationConfig]():
		return checkUnion(value)
	case reflect.PointerTo(decoded).Implements(unmarshaler), reflect.PointerTo(decoded).Implements(textUnmarshaler):
		return nil
	case decoded.Kind() == reflect.Struct:
		return checkStruct(value, decoded)
	case decoded.Kind() == reflect.Slice || decoded.Kind() == reflect.Map:
		return checkItems(value, decoded)
	}
	return nil
}

// checkUnion fails if a union's value is not an object. The reader determines the member.
func checkUnion(value any) error {
	if _, isObject := value.(map[string]any); !isObject {
		return errors.New("an object is missing")
	}
	return nil
}

func checkItems(value any, decoded reflect.Type) error {
	var items []any
	switch value := value.(type) {
	case []any:
		items = value
	case map[string]any:
		for _, item := range value {
			items = append(items, item)
		}
	default:
		return errors.New("a list is missing")
	}
	for _, item := range items {
		if err := checkFields(item, decoded.Elem()); err != nil {
			return err
		}
	}
	return nil
}

func checkStruct(value any, decoded reflect.Type) error {
	object, isObject := value.(map[string]any)
	if !isObject {
		return errors.New("an object is missing")
	}
	for number := range decoded.NumField() {
		field := decoded.Field(number)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		found, has := object[name]
		optional := strings.Contains(options, "omit")
		if !has && optional || found == nil && optional || has && found == nil && field.Tag.Get("nullable") != "" {
			continue
		}
		if !has {
			return fmt.Errorf("the field %s is missing", name)
		}
		if err := checkFields(found, field.Type); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
