package conclave

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAClientWithoutArgumentsReadsTheEnvironment(t *testing.T) {
	var credential string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credential = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	t.Setenv("CONCLAVE_URL", server.URL)
	t.Setenv("CONCLAVE_KEY", "vk_test_of_the_environment")
	for _, c := range []struct{ url, key, want string }{
		{"", "", "Bearer vk_test_of_the_environment"},
		{"", "vk_test_given", "Bearer vk_test_given"},
		{server.URL, "vk_test_given", "Bearer vk_test_given"},
	} {
		credential = ""
		if _, err := New(c.url, c.key).GetPlan(context.Background()); err == nil {
			t.Fatal("not refused")
		}
		if credential != c.want {
			t.Errorf("New(%q, %q) sends %q, not %q", c.url, c.key, credential, c.want)
		}
	}
	// Arguments take precedence.
	t.Setenv("CONCLAVE_URL", "http://127.0.0.1:1")
	credential = ""
	if _, err := New(server.URL, "vk_test_given").GetPlan(context.Background()); err == nil || credential == "" {
		t.Errorf("the server that is given has got no request: %v", err)
	}
}
