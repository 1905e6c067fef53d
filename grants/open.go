package grants

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// body is a pointer to a body that checks itself.
type body[B any] interface {
	*B
	Validate() error
}

// noting decodes like the body that it holds, and keeps the error of its
// Validate, of which the envelope passes on the words alone.
type noting[B any, P body[B]] struct {
	Held  B `json:",embed"`
	fault error
}

func (n *noting[B, P]) Validate() error {
	n.fault = P(&n.Held).Validate()
	return n.fault
}

// open opens raw as an object of type t: form, schema, signature by the one
// that the body names, and time. Every refusal has its Reason.
func open[B any, P body[B]](raw []byte, t envelope.Type, v Verifier) (*envelope.Object, B, error) {
	var n noting[B, P]
	o, err := envelope.Open(raw, &n, envelope.Expecting(t, v.Keys, v.Now))
	if err = explain(raw, n.fault, err); err != nil {
		var none B
		return nil, none, err
	}
	return o, n.Held, nil
}

// read is open without keys and time: for what a program kept itself.
func read[B any, P body[B]](raw []byte, t envelope.Type) (*envelope.Object, B, error) {
	var n noting[B, P]
	o, err := envelope.Parse(raw)
	if err == nil && o.Type != t {
		err = refuse(ErrMalformed, "object_type %s, want %s", o.Type, t)
	}
	if err == nil {
		err = o.DecodeBody(&n)
	}
	if err = explain(raw, n.fault, err); err != nil {
		var none B
		return nil, none, err
	}
	return o, n.Held, nil
}

// explain turns the error of decoding into the one that a caller branches on.
// A scope of a type that does not exist has members of its own, and so fails
// the schema before its type is looked at.
func explain(raw []byte, fault, err error) error {
	switch {
	case err == nil:
		return nil
	case fault != nil:
		return fault
	case errors.Is(err, envelope.ErrSchema):
		var o struct {
			Body struct {
				Scope struct {
					Type ScopeType `json:"type"`
				} `json:"scope"`
			} `json:"body"`
		}
		// The octets are canonical, or the schema would not have been reached.
		if json.Unmarshal(raw, &o) == nil {
			if t := o.Body.Scope.Type; t != "" && !t.known() {
				return refuse(ErrScopeType, "%.40q", string(t))
			}
		}
	}
	return typed(err)
}
