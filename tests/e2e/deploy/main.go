// Validates the files in deploy/ for Docker Compose and Kubernetes, with the parsers of those projects and without a network:
//
//	go run . compose FILE PROFILE...   loads a compose file, with the environment and the .env beside it
//	go run . kubernetes FOLDER         renders a kustomization, and reads each object strictly as its type
//
// Prints its findings, and exits with 1 at the first mistake.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("usage: compose FILE PROFILE... or kubernetes FOLDER")
	}
	switch arguments[0] {
	case "compose":
		return compose(arguments[1], arguments[2:])
	case "kubernetes":
		return kubernetes(arguments[1])
	}
	return fmt.Errorf("there is no %s, but compose and kubernetes", arguments[0])
}

func compose(file string, profiles []string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv, cli.WithProfiles(profiles))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(project.ServiceNames(), ", "))
	return nil
}

func kubernetes(folder string) error {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	// Strict: an unknown field is a mistake.
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var kinds []string
	for _, resource := range rendered.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return err
		}
		if _, _, err := decoder.Decode(text, nil, nil); err != nil {
			return fmt.Errorf("%s %s: %w", resource.GetKind(), resource.GetName(), err)
		}
		kinds = append(kinds, resource.GetKind()+" "+resource.GetName())
	}
	fmt.Println(strings.Join(kinds, ", "))
	return nil
}
