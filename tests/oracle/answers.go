package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What stands in a problem's type when it is not one of the API server's field error types.
const (
	// typeFault: the request cannot be answered; the caller's mistake, not a verdict.
	typeFault = "Fault"
	// typeDecode: the API server turns the text away before it looks at any field (HTTP 400).
	typeDecode = "Decode"
	// typeRefused: a parser refuses the value.
	typeRefused = "Refused"
)

// A problem is one reason for a refusal, and text is the API server's own wording of it.
type problem struct {
	Path   string `json:"path"`
	Type   string `json:"type"`
	Detail string `json:"detail"`
	Text   string `json:"text"`
}

// An outcome is the part that every answer has.
type outcome struct {
	OK     bool      `json:"ok"`
	Errors []problem `json:"errors"`
}

func accepted() outcome { return outcome{OK: true, Errors: []problem{}} }

func refusal(kind string, err error) outcome {
	return outcome{Errors: []problem{{Type: kind, Detail: err.Error(), Text: err.Error()}}}
}

func fault(format string, args ...any) outcome {
	return refusal(typeFault, fmt.Errorf(format, args...))
}

// verdict lists field errors, each once: metadata is checked twice on an update, and the message that
// the API server shows (not its list of causes) leaves the repetitions out, too.
func verdict(errs field.ErrorList) outcome {
	result := accepted()
	seen := map[string]bool{}
	for _, err := range errs {
		found := problem{Path: err.Field, Type: string(err.Type), Detail: err.Detail, Text: err.Error()}
		if found.Path == "<nil>" { // how a nil field.Path prints: the object as a whole
			found.Path = ""
		}
		if !seen[found.Text] {
			seen[found.Text] = true
			result.Errors = append(result.Errors, found)
		}
	}
	result.OK = len(result.Errors) == 0
	return result
}
