package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// The order and the conditions below are those of pkg/registry/customresource in
// apiextensions-apiserver 0.36 (strategy.go, status_strategy.go, validator.go). That package cannot be
// called itself without compiling the storage layer and etcd's client: 1056 packages instead of 652,
// and more than twice the processor time. So this file follows it by hand, and must be read against it
// again whenever the pinned release changes; the checks that it calls are the API server's own.

var metadataPath = field.NewPath("metadata")

func (v *servedVersion) judgeCreate(object *unstructured.Unstructured) field.ErrorList {
	errs := v.judgeType(object)
	if len(errs) == 0 {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessor(object, v.namespaced, apivalidation.NameIsDNSSubdomain, metadataPath)...)
		errs = append(errs, schemavalidation.ValidateCustomResource(nil, object.Object, v.whole)...)
		errs = append(errs, v.judgeScaleSpec(object)...)
		errs = append(errs, v.judgeScaleStatus(object)...)
	}
	errs = append(errs, objectmeta.Validate(nil, object.Object, v.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, object.Object)...)
	return v.judgeRules(errs, object, nil)
}

func (v *servedVersion) judgeUpdate(object, old *unstructured.Unstructured) field.ErrorList {
	correlated := common.NewCorrelatedObject(object.Object, old.Object, &model.Structural{Structural: v.structural})
	errs := v.judgeMetadataUpdate(object, old)
	if wrong := v.judgeType(object); len(wrong) > 0 {
		errs = append(errs, wrong...)
	} else {
		errs = append(errs, schemavalidation.ValidateCustomResourceUpdate(
			nil, object.Object, old.Object, v.whole, schemavalidation.WithRatcheting(correlated))...)
		errs = append(errs, v.judgeScaleSpec(object)...)
		errs = append(errs, v.judgeScaleStatus(object)...)
	}
	errs = append(errs, objectmeta.Validate(nil, object.Object, v.structural, false)...)
	errs = append(errs, v.judgeListsUpdate(object, old)...)
	return v.judgeRules(errs, object, old, cel.WithRatcheting(correlated))
}

func (v *servedVersion) judgeStatusUpdate(object, old *unstructured.Unstructured) field.ErrorList {
	correlated := common.NewCorrelatedObject(object.Object, old.Object, &model.Structural{Structural: v.structural})
	errs := v.judgeMetadataUpdate(object, old)
	if wrong := v.judgeType(object); len(wrong) > 0 {
		errs = append(errs, wrong...)
	} else {
		if status, written := object.Object["status"]; written {
			errs = append(errs, schemavalidation.ValidateCustomResourceUpdate(
				field.NewPath("status"), status, old.Object["status"], v.status,
				schemavalidation.WithRatcheting(correlated.Key("status")))...)
		}
		errs = append(errs, v.judgeScaleStatus(object)...)
	}
	errs = append(errs, v.judgeListsUpdate(object, old)...)
	return v.judgeRules(errs, object, old, cel.WithRatcheting(correlated))
}

func (v *servedVersion) judgeType(object *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	if kind := object.GetKind(); kind != v.kind.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), kind, "must be "+v.kind.Kind))
	}
	wanted := v.kind.GroupVersion().String()
	if apiVersion := object.GetAPIVersion(); apiVersion != wanted {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), apiVersion, "must be "+wanted))
	}
	return errs
}

func (v *servedVersion) judgeMetadataUpdate(object, old *unstructured.Unstructured) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessor(object, v.namespaced, pathvalidation.ValidatePathSegmentName, metadataPath)
	return append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(object, old, metadataPath)...)
}

// judgeListsUpdate lets an object keep a repeated list entry that it had already.
func (v *servedVersion) judgeListsUpdate(object, old *unstructured.Unstructured) field.ErrorList {
	if len(listtype.ValidateListSetsAndMaps(nil, v.structural, old.Object)) > 0 {
		return nil
	}
	return listtype.ValidateListSetsAndMaps(nil, v.structural, object.Object)
}

// judgeRules runs the CEL rules unless an error before them says that the object does not have the
// shape they were type-checked for; it then says that rules were left out.
func (v *servedVersion) judgeRules(errs field.ErrorList, object, old *unstructured.Unstructured, options ...cel.Option) field.ErrorList {
	if v.rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
			field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil, rulesNotChecked))
		}
	}
	var before any // an untyped nil, so that rules over oldSelf see a creation
	if old != nil {
		before = old.Object
	}
	broken, _ := v.rules.Validate(
		context.Background(), nil, v.structural, object.Object, before, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, broken...)
}

const rulesNotChecked = "some validation rules were not checked because the object was invalid; " +
	"correct the existing errors to complete validation"

func (v *servedVersion) judgeScaleSpec(object *unstructured.Unstructured) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	return judgeReplicas(object, v.scale.SpecReplicasPath)
}

func (v *servedVersion) judgeScaleStatus(object *unstructured.Unstructured) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	errs := judgeReplicas(object, v.scale.StatusReplicasPath)
	if path := v.scale.LabelSelectorPath; path != nil {
		selector, _, err := unstructured.NestedString(object.Object, steps(*path)...)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), selector, err.Error()))
		}
	}
	return errs
}

// judgeReplicas: whatever the schema allows, a scale subresource can show an int32 only.
func judgeReplicas(object *unstructured.Unstructured, path string) field.ErrorList {
	replicas, _, err := unstructured.NestedInt64(object.Object, steps(path)...)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(field.NewPath(path), replicas, err.Error())}
	case replicas < 0:
		return field.ErrorList{field.Invalid(field.NewPath(path), replicas, "should be a non-negative integer")}
	case replicas > math.MaxInt32:
		limit := fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)
		return field.ErrorList{field.Invalid(field.NewPath(path), replicas, limit)}
	}
	return nil
}

func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
