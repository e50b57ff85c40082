package modaltest

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// signer creates and checks the server's own short-lived tokens.
type signer struct{ key []byte }

func newSigner() (signer, error) {
	key := make([]byte, 32)
	_, err := rand.Read(key)
	return signer{key}, err
}

// sign creates a token for a subject.
func (s signer) sign(subject string, life time.Duration) (string, error) {
	now := time.Now()
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject: subject, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life)),
	}).SignedString(s.key)
}

// subject checks a token and returns its subject.
func (s signer) subject(token string) (string, error) {
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return s.key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired())
	return claims.Subject, err
}

// accountSubject is the subject of the control plane's tokens. The subject of a router's token is a task.
const accountSubject = "account"

const routerService = "/modal.task_command_router.TaskCommandRouter/"

func (s *Server) authUnary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	ctx, err := s.authenticate(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return next(ctx, request)
}

func (s *Server) authStream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	ctx, err := s.authenticate(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return next(srv, &streamWith{ServerStream: stream, ctx: ctx})
}

// streamWith is a stream whose context has the subject of its token.
type streamWith struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // gRPC hands a stream's context over this way
}

func (s *streamWith) Context() context.Context { return s.ctx }

type taskKey struct{}

// taskOf returns the task in a router call's token.
func taskOf(ctx context.Context) string {
	task, _ := ctx.Value(taskKey{}).(string)
	return task
}

func (s *Server) authenticate(ctx context.Context, full string) (context.Context, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	if strings.HasPrefix(full, routerService) {
		token, _ := strings.CutPrefix(header(headers, "authorization"), "Bearer ")
		task, err := s.signer.subject(token)
		if err != nil || task == accountSubject {
			return ctx, status.Error(codes.Unauthenticated, "the command router's token is not valid")
		}
		return context.WithValue(ctx, taskKey{}, task), nil
	}
	if err := s.checkToken(headers); err != nil {
		return ctx, err
	}
	if method(full) == "AuthTokenGet" || method(full) == "ClientHello" {
		return ctx, nil
	}
	// Streams and old clients send no such token.
	if token := header(headers, "x-modal-auth-token"); token != "" {
		if subject, err := s.signer.subject(token); err != nil || subject != accountSubject {
			return ctx, status.Error(codes.Unauthenticated, "the auth token is not valid")
		}
	}
	return ctx, nil
}

// checkToken checks the account's token.
func (s *Server) checkToken(headers metadata.MD) error {
	id, secret := header(headers, "x-modal-token-id"), header(headers, "x-modal-token-secret")
	if header(headers, "x-modal-refresh-token") != "" {
		id, secret = header(headers, "x-modal-oauth-client-id"), header(headers, "x-modal-oauth-client-secret")
		if assertion := header(headers, "x-modal-oauth-client-assertion"); assertion != "" {
			return s.checkAssertion(id, assertion)
		}
	}
	if id == "" || secret == "" {
		return status.Error(codes.Unauthenticated, "Token missing. Could not authenticate client.")
	}
	if len(s.opts.Tokens) == 0 {
		return nil
	}
	if want, known := s.opts.Tokens[id]; !known || subtle.ConstantTimeCompare([]byte(want), []byte(secret)) != 1 {
		return status.Error(codes.Unauthenticated, "Token ID is malformed or was revoked.")
	}
	return nil
}

// assertionAudience is the audience of an OAuth client's assertion.
const assertionAudience = "modal-server"

// checkAssertion checks the assertion of an OAuth client. It rejects a client without a key, unless the server accepts
// any token.
func (s *Server) checkAssertion(id, assertion string) error {
	claims, parser := jwt.RegisteredClaims{}, jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithIssuer(id), jwt.WithSubject(id), jwt.WithAudience(assertionAudience))
	var err error
	if key := s.opts.AssertionKeys[id]; key != nil || len(s.opts.Tokens) > 0 {
		_, err = parser.ParseWithClaims(assertion, &claims, func(*jwt.Token) (any, error) {
			if key == nil {
				return nil, errors.New("the client has no key")
			}
			return key, nil
		})
	} else if _, _, err = parser.ParseUnverified(assertion, &claims); err == nil {
		err = jwt.NewValidator(
			jwt.WithExpirationRequired(), jwt.WithIssuer(id), jwt.WithSubject(id), jwt.WithAudience(assertionAudience),
		).Validate(claims)
	}
	if err != nil {
		return status.Error(codes.Unauthenticated, "The OAuth client's assertion is not valid.")
	}
	return nil
}

func header(headers metadata.MD, name string) string {
	if values := headers.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// AuthTokenGet returns a token for the account.
func (s *Server) AuthTokenGet(context.Context, *pb.AuthTokenGetRequest) (*pb.AuthTokenGetResponse, error) {
	token, err := s.signer.sign(accountSubject, s.opts.TokenLife)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return pb.AuthTokenGetResponse_builder{Token: token}.Build(), nil
}
