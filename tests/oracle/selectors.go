package main

import (
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"
)

type selectorRequest struct {
	Op     string            `json:"op"`
	Value  string            `json:"value"`
	Labels map[string]string `json:"labels"`
}

type labelSelectorRequest struct {
	Op       string            `json:"op"`
	Selector json.RawMessage   `json:"selector"`
	Labels   map[string]string `json:"labels"`
}

// Matches is absent when the request names no labels; labels that are given but empty are asked about.
type selectorAnswer struct {
	outcome
	Canonical string `json:"canonical"`
	Matches   *bool  `json:"matches,omitempty"`
}

// selector reads the text form, as in a list request or in the scale subresource's status.
func selector(request selectorRequest) any {
	parsed, err := labels.Parse(request.Value)
	if err != nil {
		return refusal(typeRefused, err)
	}
	return matched(parsed, request.Labels)
}

// labelSelector reads the object form. A null selector matches nothing and an empty one everything,
// and both print as an empty text: only matches tells them apart.
func labelSelector(request labelSelectorRequest) any {
	var form *metav1.LabelSelector
	strict, err := kjson.UnmarshalStrict(request.Selector, &form)
	if err = errors.Join(append(strict, err)...); err != nil {
		return refusal(typeDecode, err)
	}
	parsed, err := metav1.LabelSelectorAsSelector(form)
	if err != nil {
		return refusal(typeRefused, err)
	}
	return matched(parsed, request.Labels)
}

func matched(parsed labels.Selector, given map[string]string) selectorAnswer {
	answer := selectorAnswer{outcome: accepted(), Canonical: parsed.String()}
	if given != nil {
		matches := parsed.Matches(labels.Set(given))
		answer.Matches = &matches
	}
	return answer
}
