package conclave

import (
	"fmt"
	"log/slog"
	"strings"
)

const mask = "***"

func masked(secret string) string {
	if secret == "" {
		return ""
	}
	return mask
}

func maskedPointer(secret *string) *string {
	if secret == nil {
		return nil
	}
	return Ptr(masked(*secret))
}

func maskedItems(secrets []string) []string {
	items := make([]string, len(secrets))
	for number, secret := range secrets {
		items[number] = masked(secret)
	}
	return items
}

// format prints a value whose type has another name, and therefore no method Format.
func format(state fmt.State, verb rune, plain any, name string) {
	text := fmt.Sprintf(fmt.FormatString(state, verb), plain)
	_, _ = fmt.Fprint(state, strings.Replace(text, "conclave.plain{", "conclave."+name+"{", 1))
}

// logged returns the log value of a type with secrets. A handler would write its JSON, which contains them.
func logged(value any) slog.Value { return slog.StringValue(fmt.Sprintf("%+v", value)) }
