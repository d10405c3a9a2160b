package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type aboutRequest struct {
	Op string `json:"op"`
}

type aboutAnswer struct {
	outcome
	Go      string            `json:"go"`
	Modules map[string]string `json:"modules"`
	// CELCompatibility is one minor release behind: a cluster must be able to go back by one, so a
	// new rule may use only what the release before understands.
	CELCompatibility string `json:"cel_compatibility"`
	RuleCostLimit    uint64 `json:"rule_cost_limit"`
	SchemaCostLimit  uint64 `json:"schema_cost_limit"`
	CallCostLimit    uint64 `json:"call_cost_limit"`
	ObjectCostLimit  uint64 `json:"object_cost_limit"`
}

// about says whose word this is, so that a test can name the release it was compared with.
func about(aboutRequest) any {
	answer := aboutAnswer{
		outcome:          accepted(),
		Go:               runtime.Version(),
		Modules:          map[string]string{},
		CELCompatibility: environment.DefaultCompatibilityVersion().String(),
		RuleCostLimit:    crdvalidation.StaticEstimatedCostLimit,
		SchemaCostLimit:  crdvalidation.StaticEstimatedCRDCostLimit,
		CallCostLimit:    celconfig.PerCallLimit,
		ObjectCostLimit:  celconfig.RuntimeCELCostBudget,
	}
	if build, known := debug.ReadBuildInfo(); known {
		for _, module := range build.Deps {
			if strings.HasPrefix(module.Path, "k8s.io/") || strings.HasPrefix(module.Path, "sigs.k8s.io/") {
				answer.Modules[module.Path] = module.Version
			}
		}
	}
	return answer
}
