package conclave

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"time"
)

// outgoing is an operation's call.
type outgoing struct {
	method string
	// path contains the parameter names in braces.
	path     string
	values   []string
	params   any
	body     any
	statuses []int
}

// resultOf sends a request and returns its result.
func resultOf[T any](ctx context.Context, c *Client, r outgoing) (*T, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	result := new(T)
	if err := c.send(req, result, r.statuses...); err != nil {
		return nil, err
	}
	return result, nil
}

// run sends a request without a result.
func (c *Client) run(ctx context.Context, r outgoing) error {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return err
	}
	return c.send(req, nil, r.statuses...)
}

func (c *Client) newRequest(ctx context.Context, r outgoing) (*http.Request, error) {
	target, err := pathOf(r.path, r.values)
	if err != nil {
		return nil, err
	}
	target = c.server + target
	query, err := queryOf(r.params)
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if r.body == nil {
		return http.NewRequestWithContext(ctx, r.method, target, nil)
	}
	content, err := json.Marshal(r.body)
	if err != nil {
		return nil, &Error{Code: "invalid_parameter", Message: "the body cannot be written as JSON", cause: err}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// pathOf returns a path with its parameter values.
func pathOf(template string, values []string) (string, error) {
	var problem error
	path := pathParameter.ReplaceAllStringFunc(template, func(name string) string {
		value := values[0]
		values = values[1:]
		if err := checkSegment(name[1:len(name)-1], value); err != nil && problem == nil {
			problem = err
		}
		return url.PathEscape(value)
	})
	return path, problem
}

// given returns the parameters of a call that may have none.
func given[T any](params []*T) *T {
	if len(params) == 0 {
		return nil
	}
	return params[0]
}

// queryOf returns the parameters that have a value, from a pointer to a struct.
func queryOf(params any) (url.Values, error) {
	query := url.Values{}
	given := reflect.ValueOf(params)
	if !given.IsValid() || given.IsNil() {
		return query, nil
	}
	given = given.Elem()
	for number := range given.NumField() {
		field := given.Field(number)
		if field.IsZero() {
			continue
		}
		text, err := queryText(reflect.Indirect(field).Interface())
		if err != nil {
			return nil, err
		}
		query.Set(given.Type().Field(number).Tag.Get("query"), text)
	}
	return query, nil
}

func queryText(value any) (string, error) {
	switch value := value.(type) {
	case time.Time:
		return value.UTC().Format(time.RFC3339Nano), nil
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		return string(text), err
	}
	return fmt.Sprint(value), nil
}
