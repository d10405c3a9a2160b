package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A registry keeps the definitions that were loaded, as the API server keeps those it serves.
type registry struct {
	scheme  *runtime.Scheme
	decoder *kubejson.Serializer
	served  map[schema.GroupVersionKind]*servedVersion
}

func newRegistry() *registry {
	scheme := runtime.NewScheme()
	utilruntime.Must(apiextensions.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	strict := kubejson.SerializerOptions{Strict: true}
	return &registry{
		scheme:  scheme,
		decoder: kubejson.NewSerializerWithOptions(kubejson.DefaultMetaFactory, scheme, scheme, strict),
		served:  map[schema.GroupVersionKind]*servedVersion{},
	}
}

type loadRequest struct {
	Op  string          `json:"op"`
	CRD json.RawMessage `json:"crd"`
}

type loadAnswer struct {
	outcome
	Warnings []string   `json:"warnings"`
	Versions []string   `json:"versions"`
	Costs    []ruleCost `json:"costs"`
}

// load does what creating the definition would do, and keeps its served versions if nothing is wrong.
func (r *registry) load(request loadRequest) any {
	crd, err := r.decode(request.CRD)
	if err != nil {
		return refusal(typeDecode, err)
	}
	prepareForCreate(crd)
	answer := loadAnswer{
		outcome:  verdict(crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd)),
		Warnings: unknownFormats(crd),
		Versions: []string{},
		Costs:    []ruleCost{},
	}
	for i := range crd.Spec.Versions {
		answer.Costs = append(answer.Costs, ruleCosts(crd, i)...)
	}
	if !answer.OK {
		return answer
	}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		compiled, err := compile(crd, version.Name)
		if err != nil {
			return fault("version %s is valid and yet cannot be served: %v", version.Name, err)
		}
		r.served[compiled.kind] = compiled
		answer.Versions = append(answer.Versions, version.Name)
	}
	return answer
}

// decode reads a v1 definition strictly: an unknown or repeated field is an error, not a warning.
func (r *registry) decode(text []byte) (*apiextensions.CustomResourceDefinition, error) {
	decoded, kind, err := r.decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	external, fits := decoded.(*apiextensionsv1.CustomResourceDefinition)
	if !fits {
		return nil, fmt.Errorf("%s is not a CustomResourceDefinition", kind)
	}
	r.scheme.Default(external)
	internal := &apiextensions.CustomResourceDefinition{}
	return internal, r.scheme.Convert(external, internal, nil)
}

// prepareForCreate replaces the status, as the API server does whatever the user wrote there.
func prepareForCreate(crd *apiextensions.CustomResourceDefinition) {
	crd.Status = apiextensions.CustomResourceDefinitionStatus{}
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			crd.Status.StoredVersions = []string{version.Name}
			return
		}
	}
}

// unknownFormats finds each "format" that the API server warns about because it does not check it.
func unknownFormats(crd *apiextensions.CustomResourceDefinition) []string {
	warnings := []string{}
	release := environment.DefaultCompatibilityVersion()
	for _, version := range crd.Spec.Versions {
		formats, err := apiextensions.GetSchemaForVersion(crd, version.Name)
		if err != nil || formats == nil || formats.OpenAPIV3Schema == nil {
			continue
		}
		crdvalidation.SchemaHas(formats.OpenAPIV3Schema, func(node *apiextensions.JSONSchemaProps) bool {
			props := spec.SchemaProps{Format: node.Format, Type: []string{node.Type}}
			for _, format := range schemavalidation.GetUnrecognizedFormats(&spec.Schema{SchemaProps: props}, release) {
				warnings = append(warnings, fmt.Sprintf("unrecognized format %q", format))
			}
			return false // false: go on with the next node
		})
	}
	return warnings
}
