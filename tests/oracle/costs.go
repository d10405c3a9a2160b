package main

import (
	"math"
	"math/bits"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A ruleCost is what the API server reckons a CEL rule to cost at worst. It tells how far a rule is
// from the limit; the validation itself only tells when the limit is passed.
type ruleCost struct {
	Version string `json:"version"`
	Path    string `json:"path"`
	Cost    uint64 `json:"cost,string"`
}

// A costWalk visits the nodes of a schema with the API server's own bookkeeping of how often each
// can occur, which is what a rule's cost is multiplied with.
type costWalk struct {
	version string
	env     *environment.EnvSet
	found   []ruleCost
}

func ruleCosts(crd *apiextensions.CustomResourceDefinition, index int) []ruleCost {
	name := crd.Spec.Versions[index].Name
	validation, err := apiextensions.GetSchemaForVersion(crd, name)
	if err != nil || validation == nil || validation.OpenAPIV3Schema == nil {
		return nil
	}
	path := schemaPath(crd, index)
	structural, err := structuralschema.NewStructural(validation.OpenAPIV3Schema)
	if err != nil || len(structuralschema.ValidateStructural(path, structural)) > 0 {
		return nil // CEL has types for a structural schema only
	}
	walk := costWalk{version: name, env: environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())}
	walk.visit(validation.OpenAPIV3Schema, crdvalidation.RootCELContext(validation.OpenAPIV3Schema), path)
	return walk.found
}

// schemaPath names a schema as the API server's errors do: the internal form has one schema for all
// versions when they do not differ, and so when there is one version only.
func schemaPath(crd *apiextensions.CustomResourceDefinition, index int) *field.Path {
	if crd.Spec.Validation != nil {
		return field.NewPath("spec", "validation", "openAPIV3Schema")
	}
	return field.NewPath("spec", "versions").Index(index).Child("schema", "openAPIV3Schema")
}

func (w *costWalk) visit(node *apiextensions.JSONSchemaProps, context *crdvalidation.CELSchemaContext, path *field.Path) {
	w.note(node, context, path)
	names := make([]string, 0, len(node.Properties))
	for name := range node.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		child := node.Properties[name]
		w.visit(&child, context.ChildPropertyContext(&child, name), path.Child("properties").Key(name))
	}
	if node.Items != nil && node.Items.Schema != nil {
		child := node.Items.Schema
		w.visit(child, context.ChildItemsContext(child), path.Child("items"))
	}
	if node.AdditionalProperties != nil && node.AdditionalProperties.Schema != nil {
		child := node.AdditionalProperties.Schema
		w.visit(child, context.ChildAdditionalPropertiesContext(child), path.Child("additionalProperties"))
	}
}

// note leaves out what does not compile: that is an error of the definition and is reported there.
func (w *costWalk) note(node *apiextensions.JSONSchemaProps, context *crdvalidation.CELSchemaContext, path *field.Path) {
	if len(node.XValidations) == 0 {
		return
	}
	types, err := context.TypeInfo()
	if err != nil || types == nil {
		return
	}
	compiled, err := cel.Compile(types.Schema, types.DeclType, celconfig.PerCallLimit, w.env, cel.NewExpressionsEnvLoader())
	if err != nil {
		return
	}
	for i, rule := range compiled {
		at := path.Child("x-kubernetes-validations").Index(i)
		occurrences := rule.MaxCardinality
		if context.MaxCardinality != nil {
			occurrences = *context.MaxCardinality
		}
		if rule.Error == nil {
			w.add(at.Child("rule"), saturatingProduct(rule.MaxCost, occurrences))
		}
		if rule.MessageExpression != nil {
			w.add(at.Child("messageExpression"), rule.MessageExpressionMaxCost)
		}
	}
}

func (w *costWalk) add(path *field.Path, cost uint64) {
	w.found = append(w.found, ruleCost{Version: w.version, Path: path.String(), Cost: cost})
}

func saturatingProduct(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return math.MaxUint64
	}
	return low
}
