package main

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A servedVersion is one version of a definition, made ready to judge objects.
type servedVersion struct {
	kind       schema.GroupVersionKind
	namespaced bool
	structural *structuralschema.Structural
	whole      schemavalidation.SchemaValidator
	rules      *cel.Validator // nil when the schema has no rule

	// Only with the status subresource: then a status is written on its own and judged on its own.
	hasStatus bool
	status    schemavalidation.SchemaValidator

	scale *apiextensions.CustomResourceSubresourceScale
}

// compile follows customresource_handler.go of apiextensions-apiserver 0.36.
func compile(crd *apiextensions.CustomResourceDefinition, version string) (*servedVersion, error) {
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil {
		return nil, err
	}
	if validation == nil || validation.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("it has no schema")
	}
	shared, err := structuralschema.NewStructural(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	structural := shared.DeepCopy() // pruning changes the defaults, which the CRD shares
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	whole, _, err := schemavalidation.NewSchemaValidator(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	served := &servedVersion{
		kind:       schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
		namespaced: crd.Spec.Scope == apiextensions.NamespaceScoped,
		structural: structural,
		whole:      whole,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
	return served, served.addSubresources(crd, version, validation.OpenAPIV3Schema)
}

func (v *servedVersion) addSubresources(crd *apiextensions.CustomResourceDefinition, version string, root *apiextensions.JSONSchemaProps) error {
	subresources, err := apiextensions.GetSubresourcesForVersion(crd, version)
	if err != nil || subresources == nil {
		return err
	}
	v.scale = subresources.Scale
	v.hasStatus = subresources.Status != nil
	if status, described := root.Properties["status"]; v.hasStatus && described {
		v.status, _, err = schemavalidation.NewSchemaValidator(&status)
	}
	return err
}
