package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// rounds is a fixture's state between the rounds of a request for input. A client can read it and cannot change it.
type rounds struct{ key []byte }

func (r rounds) seal(state string) string {
	sum := hmac.New(sha256.New, r.key)
	sum.Write([]byte(state))
	return state + "." + hex.EncodeToString(sum.Sum(nil))
}

func (r rounds) open(sealed string) (string, error) {
	state, _, _ := strings.Cut(sealed, ".")
	if !hmac.Equal([]byte(r.seal(state)), []byte(sealed)) {
		return "", errors.New("the state was not sealed by this server")
	}
	return state, nil
}

// The inputs that the fixtures request, by the names that the suite gives them.
func askFor(ask *server.InputRequestBuilder, name string) *server.InputRequestBuilder {
	elicit := func(message, property, kind string) *server.InputRequestBuilder {
		return ask.Elicit(name, mcp.ElicitationParams{Message: message, RequestedSchema: json.RawMessage(
			fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, property, kind, property),
		)})
	}
	sample := func(prompt string) *server.InputRequestBuilder {
		return ask.Sample(name, mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: mcp.NewTextContent(prompt)},
		}})
	}
	switch name {
	case "user_name":
		return elicit("Enter your name", "name", "string")
	case "step1":
		return elicit("Step 1: enter your name", "name", "string")
	case "step2":
		return elicit("Step 2: enter your favorite color", "color", "string")
	case "confirm":
		return elicit("Please confirm", "ok", "boolean")
	case "capital_question":
		return sample("What is the capital of France?")
	case "greeting":
		return sample("Generate a greeting")
	default:
		return ask.Roots(name)
	}
}

// answered reports whether the client gave the input, in the form of its request.
func answered(answers mcp.InputResponses, input string) bool {
	switch input {
	case "capital_question", "greeting":
		return server.SamplingResponse(answers, input) != nil
	case "client_roots":
		return server.RootsResponse(answers, input) != nil
	default:
		return server.ElicitationResponse(answers, input) != nil
	}
}

// addRounds adds the fixtures that need input from the client. mcp-go calls them again with the answers.
func addRounds(s *Server) {
	state := rounds{key: []byte(rand.Text())}
	type call = mcp.CallToolRequest
	add := func(name string, run func(context.Context, call) (*mcp.CallToolResult, error)) {
		s.mcp.AddTool(mcp.NewTool(name, mcp.WithDescription("A fixture of the conformance suite.")), run)
	}
	// once is a tool that requests all inputs in one round, and then says what says makes of the answers.
	once := func(name string, sealed bool, says func(mcp.InputResponses) string, inputs ...string) {
		add(name, func(_ context.Context, request call) (*mcp.CallToolResult, error) {
			ask := server.NewInputRequestBuilder("")
			if sealed {
				ask.RequestState(state.seal(name))
			}
			missing := false
			for _, input := range inputs {
				if !answered(request.Params.InputResponses, input) {
					askFor(ask, input)
					missing = true
				}
			}
			if missing {
				return ask.ToolResult(), nil
			}
			if sealed {
				if opened, err := state.open(request.Params.RequestState); err != nil || opened != name {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			return mcp.NewToolResultText(says(request.Params.InputResponses)), nil
		})
	}
	answer := func(answers mcp.InputResponses, input, property string) string {
		if elicited := server.ElicitationResponse(answers, input); elicited != nil {
			content, _ := elicited.Content.(map[string]any)
			return fmt.Sprint(content[property])
		}
		return ""
	}
	once("test_input_required_result_elicitation", false, func(answers mcp.InputResponses) string {
		return "Hello, " + answer(answers, "user_name", "name") + "!"
	}, "user_name")
	once("test_input_required_result_sampling", false, func(answers mcp.InputResponses) string {
		return fmt.Sprint(server.SamplingResponse(answers, "capital_question").Content)
	}, "capital_question")
	once("test_input_required_result_list_roots", false, func(answers mcp.InputResponses) string {
		return fmt.Sprint(server.RootsResponse(answers, "client_roots").Roots)
	}, "client_roots")
	once("test_streaming_elicitation", false, func(mcp.InputResponses) string { return "done" }, "user_name")
	ok := func(mcp.InputResponses) string { return "state-ok" }
	once("test_input_required_result_request_state", true, ok, "confirm")
	once("test_input_required_result_tampered_state", true, ok, "confirm")
	once("test_input_required_result_multiple_inputs", true, ok, "user_name", "greeting", "client_roots")
	add("test_input_required_result_multi_round", func(_ context.Context, request call) (*mcp.CallToolResult, error) {
		if request.Params.RequestState == "" {
			return askFor(server.NewInputRequestBuilder(state.seal("1")), "step1").ToolResult(), nil
		}
		switch round, err := state.open(request.Params.RequestState); {
		case err != nil:
			return nil, err
		case round == "1":
			return askFor(server.NewInputRequestBuilder(state.seal("2")), "step2").ToolResult(), nil
		}
		return mcp.NewToolResultText("Your color is " + answer(request.Params.InputResponses, "step2", "color")), nil
	})
	add("test_input_required_result_capabilities", func(ctx context.Context, request call) (*mcp.CallToolResult, error) {
		ask := server.NewInputRequestBuilder("")
		can := s.host.Call(ctx, request).Capabilities(ctx)
		if can.Elicitation != nil {
			askFor(ask, "user_name")
		}
		if can.Sampling != nil {
			askFor(ask, "greeting")
		}
		return ask.ToolResult(), nil
	})
	s.mcp.AddPrompt(mcp.Prompt{Name: "test_input_required_result_prompt", Description: "a fixture"}, func(
		_ context.Context, request mcp.GetPromptRequest,
	) (*mcp.GetPromptResult, error) {
		elicited := server.ElicitationResponse(request.Params.InputResponses, "user_name")
		if elicited == nil {
			return askFor(server.NewInputRequestBuilder(""), "user_name").PromptResult(), nil
		}
		return mcp.NewGetPromptResult("a fixture", []mcp.PromptMessage{
			mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(fmt.Sprint(elicited.Content))),
		}), nil
	})
}
