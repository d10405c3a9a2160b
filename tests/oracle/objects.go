package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type kindRequest struct {
	Op      string `json:"op"`
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Subresource is "" or "status".
	Subresource string `json:"subresource"`
}

type validateRequest struct {
	kindRequest
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old"`
}

type validateManyRequest struct {
	kindRequest
	Objects []json.RawMessage `json:"objects"`
}

type validateAnswer struct {
	outcome
	Pruned []string `json:"pruned"`
	// Object is what would be stored: pruned and defaulted. It is null if the text was turned away.
	Object map[string]any `json:"object"`
}

func (r *registry) validate(request validateRequest) any {
	version, refused := r.find(request.kindRequest)
	if refused != nil {
		return *refused
	}
	return version.admit(request.Subresource, request.Object, request.Old)
}

func (r *registry) validateMany(request validateManyRequest) any {
	version, refused := r.find(request.kindRequest)
	if refused != nil {
		return *refused
	}
	results := make([]any, len(request.Objects))
	for i, object := range request.Objects {
		results[i] = guarded(func() any { return version.admit(request.Subresource, object, nil) })
	}
	return batchAnswer{accepted(), results}
}

func (r *registry) find(request kindRequest) (*servedVersion, *outcome) {
	kind := schema.GroupVersionKind{Group: request.Group, Version: request.Version, Kind: request.Kind}
	version, known := r.served[kind]
	var wrong outcome
	switch {
	case !known:
		wrong = fault("no definition of %s has been loaded", kind)
	case request.Subresource != "" && request.Subresource != "status":
		wrong = fault("there is no subresource %q here, only \"status\"", request.Subresource)
	case request.Subresource == "status" && !version.hasStatus:
		wrong = fault("%s has no status subresource", kind)
	default:
		return version, nil
	}
	return nil, &wrong
}

// admit takes an object through its whole way in. A status written with no old object given is
// written over the same object without its status, as a controller's first write is.
func (v *servedVersion) admit(subresource string, text, oldText []byte) any {
	object, pruned, err := v.arrive(text)
	if err != nil {
		return refusal(typeDecode, err)
	}
	v.fillIn(object)
	old, err := v.stored(subresource, object, oldText)
	if err != nil {
		return fault("the old object cannot be read: %v", err)
	}
	var errs field.ErrorList
	switch {
	case subresource == "status":
		object = withStatusOf(object, old)
		errs = v.judgeStatusUpdate(object, old)
	case old != nil:
		v.prepareUpdate(object, old)
		errs = v.judgeUpdate(object, old)
	default:
		v.prepareCreate(object)
		errs = v.judgeCreate(object)
	}
	if pruned == nil {
		pruned = []string{}
	}
	return validateAnswer{verdict(errs), pruned, object.Object}
}

// stored is the object as it was before the write, or nil if this is a creation.
func (v *servedVersion) stored(subresource string, object *unstructured.Unstructured, text []byte) (*unstructured.Unstructured, error) {
	if len(text) == 0 || string(text) == "null" {
		if subresource != "status" {
			return nil, nil
		}
		old := object.DeepCopy()
		delete(old.Object, "status")
		old.SetResourceVersion("1")
		return old, nil
	}
	old, _, err := v.arrive(text)
	if err != nil {
		return nil, err
	}
	v.fillIn(old)
	old.SetResourceVersion("1")
	return old, nil
}
