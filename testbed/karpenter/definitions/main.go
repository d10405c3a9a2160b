// Writes the CustomResourceDefinitions of Karpenter and of its kwok provider, as YAML.
package main

import (
	"os"

	kwok "sigs.k8s.io/karpenter/kwok/apis"
	"sigs.k8s.io/karpenter/pkg/apis"
)

func main() {
	definitions := [][]byte{
		apis.NodePoolCRD, apis.NodeClaimCRD, apis.NodeOverlayCRD, apis.CapacityBufferCRD, kwok.KWOKNodeClassCRD,
	}
	for _, definition := range definitions {
		os.Stdout.Write(append([]byte("\n---\n"), definition...))
	}
}
