package main

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

type yamlRequest struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

type yamlAnswer struct {
	outcome
	JSON json.RawMessage `json:"json"`
}

// yamlDocument reads one document the way kubectl and the API server do when field validation is
// strict: a key that stands twice is refused.
func yamlDocument(request yamlRequest) any {
	converted, err := yaml.YAMLToJSONStrict([]byte(request.Text))
	if err != nil {
		return refusal(typeDecode, err)
	}
	return yamlAnswer{accepted(), converted}
}
