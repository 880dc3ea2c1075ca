package accelerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Error is a failed call. errors.As finds it in the errors of this package and of the generated stubs. It is context.DeadlineExceeded or
// context.Canceled for errors.Is if its code says so.
type Error struct {
	Code    codes.Code
	Message string
	// Reason is a name such as QUEUE_FULL, from ErrorInfo; docs/errors.md lists them.
	Reason string
	// Metadata has the figures of the reason.
	Metadata map[string]string
	// Violations are the invalid fields of the request, from BadRequest.
	Violations []FieldViolation
	// Resource is what was not found or exists, from ResourceInfo.
	Resource *Resource
	// RetryDelay is the time to wait before a retry, from RetryInfo. Nil if a retry cannot succeed.
	RetryDelay *time.Duration

	status *status.Status
	// isUnsent is true if there was no connection for the call.
	isUnsent bool
	hint     string
}

// FieldViolation is an invalid field of a request.
type FieldViolation struct {
	// Field is its path in the request of the protocol, such as "limit" or "texts.values[3]".
	Field       string
	Description string
}

// Resource is something that a call names.
type Resource struct {
	// Type is a kind such as "collection" or "model".
	Type string
	Name string
}

// Error returns code and message. Control characters are escaped: a terminal may show the text, and others chose names in it.
func (e *Error) Error() string {
	text := codeName(e.Code) + ": " + e.Message
	if e.hint != "" {
		text += "; " + e.hint
	}
	return visible(text)
}

// Field returns the first invalid field of the request; empty if there is none.
func (e *Error) Field() string {
	if len(e.Violations) == 0 {
		return ""
	}
	return e.Violations[0].Field
}

// GRPCStatus returns the status with its details, for status.FromError and status.Code.
func (e *Error) GRPCStatus() *status.Status {
	if e.status != nil {
		return e.status
	}
	return status.New(e.Code, e.Message)
}

// Is returns true for the error of a context that has the same meaning.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.Code == codes.Canceled
	default:
		return false
	}
}

// toError returns the error of a failed call of gRPC. nil and io.EOF are no failures.
func toError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return fromStatus(status.Convert(err))
}

func fromStatus(from *status.Status) *Error {
	found := &Error{Code: from.Code(), Message: from.Message(), status: from}
	for _, detail := range from.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			found.Reason, found.Metadata = detail.GetReason(), detail.GetMetadata()
		case *errdetails.RetryInfo:
			delay := detail.GetRetryDelay().AsDuration()
			found.RetryDelay = &delay
		case *errdetails.ResourceInfo:
			found.Resource = &Resource{Type: detail.GetResourceType(), Name: detail.GetResourceName()}
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				found.Violations = append(found.Violations, FieldViolation{violation.GetField(), violation.GetDescription()})
			}
		}
	}
	return found
}

// fromItem returns the error of an item of a stream.
func fromItem(item *pb.ItemError) *Error {
	return &Error{Code: codes.Code(uint32(item.GetCode())), Message: item.GetMessage()}
}

// isTooLarge returns true if a message exceeds the limit of the daemon or of gRPC.
func (e *Error) isTooLarge() bool {
	isSent := e.Code == codes.ResourceExhausted && strings.Contains(e.Message, "message larger than max")
	return e.Reason == "MESSAGE_TOO_LARGE" || isSent
}

// invalid returns the error of an argument that the client refuses.
func invalid(field, format string, arguments ...any) error {
	description := fmt.Sprintf(format, arguments...)
	return &Error{
		Code:       codes.InvalidArgument,
		Message:    field + ": " + description,
		Violations: []FieldViolation{{Field: field, Description: description}},
	}
}

// malformed returns the error of a response that violates the protocol.
func malformed(format string, arguments ...any) error {
	return &Error{Code: codes.Internal, Message: "malformed response: " + fmt.Sprintf(format, arguments...)}
}

// codeName returns the name of a code as the protocol has it, such as NOT_FOUND.
func codeName(code codes.Code) string {
	name := code.String()
	if code == codes.OK || strings.HasPrefix(name, "Code(") {
		return name
	}
	var upper strings.Builder
	for at, letter := range name {
		if at > 0 && 'A' <= letter && letter <= 'Z' {
			upper.WriteByte('_')
		}
		upper.WriteRune(letter)
	}
	named := strings.ToUpper(upper.String())
	if code == codes.Canceled {
		return "CANCELLED"
	}
	return named
}

// hidden are ranges of control characters, separators of lines, and characters that change the order of the text around them.
var hidden = [][2]rune{{0, 0x1f}, {0x7f, 0x9f}, {0x2028, 0x202e}, {0x2066, 0x2069}}

func visible(text string) string {
	isHidden := func(character rune) bool {
		return slices.ContainsFunc(hidden, func(bounds [2]rune) bool { return bounds[0] <= character && character <= bounds[1] })
	}
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var shown strings.Builder
	for _, character := range text {
		if isHidden(character) {
			fmt.Fprintf(&shown, `\u%04x`, character)
		} else {
			shown.WriteRune(character)
		}
	}
	return shown.String()
}
