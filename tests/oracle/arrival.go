package main

import (
	"errors"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// arrive turns the text of a request into the object that is then judged, in the API server's order:
// read, check the form of metadata, drop unknown fields, drop nulls that the schema does not allow and
// does not default, check embedded metadata, and fill in defaults.
// It returns the paths of what was dropped as unknown; an error means HTTP 400.
func (v *servedVersion) arrive(text []byte) (*unstructured.Unstructured, []string, error) {
	content := map[string]any{}
	// Integers become int64 and all other numbers float64, which is what the schema's types go by.
	strict, err := kjson.UnmarshalStrict(text, &content)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	kind, _, err := unstructured.NestedString(content, "kind")
	if err != nil {
		return nil, nil, err
	}
	apiVersion, _, err := unstructured.NestedString(content, "apiVersion")
	if err != nil {
		return nil, nil, err
	}
	if kind == "" {
		return nil, nil, runtime.NewMissingKindErr(string(text))
	}
	metaOptions := objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true}
	metadata, hasMetadata, pruned, err := objectmeta.GetObjectMetaWithOptions(content, metaOptions)
	if err != nil {
		return nil, nil, err
	}
	if apiVersion != v.kind.GroupVersion().String() || kind != v.kind.Kind {
		return object, pruned, nil // another kind: the schema is not its own, and the judge says so
	}
	unknown, err := v.coerce(content)
	if err != nil {
		return nil, nil, err
	}
	// The schema need not name these three, so pruning may have taken them away.
	object.SetKind(kind)
	object.SetAPIVersion(apiVersion)
	if hasMetadata {
		if err := objectmeta.SetObjectMeta(content, metadata); err != nil {
			return nil, nil, err
		}
	}
	defaulting.Default(content, v.structural)
	return object, append(pruned, unknown...), nil
}

func (v *servedVersion) coerce(content map[string]any) ([]string, error) {
	tracked := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown := pruning.PruneWithOptions(content, v.structural, true, tracked)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, v.structural)
	problem, embedded := objectmeta.CoerceWithOptions(
		nil, content, v.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true},
	)
	if problem != nil { // a typed nil is not a nil error
		return nil, problem
	}
	return append(unknown, embedded...), nil
}
