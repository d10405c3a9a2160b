// The oracle answers, with the Kubernetes API server's own code, what the API server would say.
//
// The tests of Trellis ask it over pipes: one JSON request per line on standard input, one JSON
// answer per line on standard output, strictly in turn. It ends when its input ends.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// An operation turns one request line into one answer.
type operation func(line []byte) any

func main() {
	definitions := newRegistry()
	operations := map[string]operation{
		"about":          reading(about),
		"quantity":       reading(quantity),
		"quantities":     reading(quantities),
		"duration":       reading(duration),
		"selector":       reading(selector),
		"label_selector": reading(labelSelector),
		"yaml":           reading(yamlDocument),
		"load_crd":       reading(definitions.load),
		"validate":       reading(definitions.validate),
		"validate_many":  reading(definitions.validateMany),
	}
	if err := serve(os.Stdin, os.Stdout, operations); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer, operations map[string]operation) error {
	// A Reader and not a Scanner: a Scanner has a longest line, and a thousand objects have not.
	lines := bufio.NewReaderSize(in, 1<<16)
	writer := bufio.NewWriterSize(out, 1<<16)
	answers := json.NewEncoder(writer)
	answers.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := answers.Encode(answered(line, operations)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func answered(line []byte, operations map[string]operation) any {
	var request struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return fault("the request is not a JSON object: %v", err)
	}
	run, known := operations[request.Op]
	if !known {
		return fault("there is no operation %q", request.Op)
	}
	return guarded(func() any { return run(line) })
}

// reading refuses a request with a key that the operation does not know: a misspelt "labels" would
// otherwise be answered as if no labels had been given.
func reading[Request any](run func(Request) any) operation {
	return func(line []byte) any {
		var request Request
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&request); err != nil {
			return fault("the request cannot be read: %v", err)
		}
		return run(request)
	}
}

// guarded keeps the process alive when the code under question panics: that is an answer, too.
func guarded(run func() any) (answer any) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Fprintf(os.Stderr, "oracle: panic: %v\n%s", reason, debug.Stack())
			answer = fault("panic: %v", reason)
		}
	}()
	return run()
}
