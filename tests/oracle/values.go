package main

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

type valueRequest struct {
	Op    string `json:"op"`
	Value string `json:"value"`
}

type valuesRequest struct {
	Op     string   `json:"op"`
	Values []string `json:"values"`
}

// 64-bit numbers travel as strings: a JSON reader that makes floats of them loses digits above 2^53.
type quantityAnswer struct {
	outcome
	Canonical  string `json:"canonical"`
	Value      int64  `json:"value,string"`
	MilliValue int64  `json:"milli_value,string"`
	Decimal    string `json:"decimal"`
	Format     string `json:"format"`
	Sign       int    `json:"sign"`
}

func quantity(request valueRequest) any {
	parsed, err := resource.ParseQuantity(request.Value)
	if err != nil {
		return refusal(typeRefused, err)
	}
	return quantityAnswer{
		outcome:    accepted(),
		Canonical:  parsed.String(),
		Value:      parsed.Value(),
		MilliValue: parsed.MilliValue(),
		Format:     string(parsed.Format),
		Sign:       parsed.CmpInt64(0),
		Decimal:    parsed.AsDec().String(), // last: it changes how the quantity is kept
	}
}

func quantities(request valuesRequest) any {
	results := make([]any, len(request.Values))
	for i, value := range request.Values {
		results[i] = guarded(func() any { return quantity(valueRequest{Value: value}) })
	}
	return batchAnswer{accepted(), results}
}

// A batch is ok once it has been answered; each result has an ok of its own.
type batchAnswer struct {
	outcome
	Results []any `json:"results"`
}

type durationAnswer struct {
	outcome
	Nanoseconds int64  `json:"nanoseconds,string"`
	Canonical   string `json:"canonical"`
}

func duration(request valueRequest) any {
	parsed, err := time.ParseDuration(request.Value)
	if err != nil {
		return refusal(typeRefused, err)
	}
	return durationAnswer{accepted(), parsed.Nanoseconds(), parsed.String()}
}
