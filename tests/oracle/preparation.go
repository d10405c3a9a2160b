package main

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fillIn sets what a request takes from its address and not from its body: the namespace. A
// generated name gets a fixed end here, so that the same question has the same answer.
func (v *servedVersion) fillIn(object *unstructured.Unstructured) {
	switch {
	case !v.namespaced:
		object.SetNamespace(metav1.NamespaceNone)
	case object.GetNamespace() == "":
		object.SetNamespace(metav1.NamespaceDefault)
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(object.GetGenerateName() + "xxxxx")
	}
}

// prepareCreate drops the status of a kind whose status is a subresource: it is written on its own.
func (v *servedVersion) prepareCreate(object *unstructured.Unstructured) {
	if v.hasStatus {
		delete(object.Object, "status")
	}
	object.SetGeneration(1)
}

// prepareUpdate keeps the old status and all that a user cannot change. A missing resourceVersion is
// taken from the old object, as in a patch; a plain PUT without one would be refused for that alone.
func (v *servedVersion) prepareUpdate(object, old *unstructured.Unstructured) {
	if v.hasStatus {
		delete(object.Object, "status")
		if status, had := old.Object["status"]; had {
			object.Object["status"] = status
		}
	}
	object.SetGeneration(old.GetGeneration())
	if !equality.Semantic.DeepEqual(withoutMetadata(object), withoutMetadata(old)) {
		object.SetGeneration(old.GetGeneration() + 1)
	}
	if object.GetResourceVersion() == "" {
		object.SetResourceVersion(old.GetResourceVersion())
	}
	if object.GetUID() == "" {
		object.SetUID(old.GetUID())
	}
	if created := old.GetCreationTimestamp(); !created.IsZero() {
		object.SetCreationTimestamp(created)
	}
	if deleted := old.GetDeletionTimestamp(); !deleted.IsZero() {
		object.SetDeletionTimestamp(deleted)
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && object.GetDeletionGracePeriodSeconds() == nil {
		object.SetDeletionGracePeriodSeconds(grace)
	}
}

func withoutMetadata(object *unstructured.Unstructured) map[string]any {
	rest := map[string]any{}
	for key, value := range object.Object {
		if key != "metadata" {
			rest[key] = value
		}
	}
	return rest
}

// withStatusOf is the old object with the new one's status: a status write changes nothing else.
func withStatusOf(object, old *unstructured.Unstructured) *unstructured.Unstructured {
	result := old.DeepCopy()
	delete(result.Object, "status")
	if status, written := object.Object["status"]; written {
		result.Object["status"] = status
	}
	return result
}
