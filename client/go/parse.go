package accelerd

import (
	"context"
	"iter"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// ParseOptions are those of a parse. Nil and zero values mean the defaults.
type ParseOptions struct {
	// Outputs are the parts to return. None means OutputTree.
	Outputs []ParseOutput
	// FeatureVersion is the minor version of Python's grammar, 8 to 14. 0 means 14.
	FeatureVersion int
	Mode           ParseMode
	// IsText says that sources are decoded text, in which an encoding cookie is a comment, and not the bytes of files.
	IsText bool
}

// Parsed is the result of a source. The columns are views of the response; proto/accelerd/v1/parse.proto documents their numbers.
type Parsed struct {
	// Diagnostic is the first error; nil if the source is valid.
	Diagnostic *Diagnostic
	// Text is the source as UTF-8, to which positions refer.
	Text []byte
	// Nodes are the syntax tree, Names and Constants what its nodes name.
	Nodes     Nodes
	Names     Spans
	Constants Constants
	// Outline are functions, classes and imports, in source order.
	Outline  []*OutlineItem
	Tokens   Tokens
	Comments Spans
	// LineStarts are the positions where lines start.
	LineStarts []uint32

	// extra is text of names and constants that differs from the source.
	extra []byte
}

// Nodes are those of a tree as columns: by logical line, in a line children before their parents.
type Nodes struct {
	// Kinds are numbers of accelerdv1.NodeKind, and Fields of accelerdv1.NodeField.
	Kinds  []uint8
	Fields []uint8
	// Parents are rows; [NoParent] at the top level.
	Parents []uint32
	Starts  []uint32
	Ends    []uint32
	Aux     []uint32
}

// NoParent is the parent of a node at the top level.
const NoParent = 0xffffffff

// Spans are slices of the text.
type Spans struct {
	Starts []uint32
	Ends   []uint32
}

// Constants are values of constants, in the order of their nodes.
type Constants struct {
	// Tags are numbers of accelerdv1.ValueTag.
	Tags []uint8
	Spans
}

// Tokens are without comments, newlines and indentation.
type Tokens struct {
	// Kinds are numbers of accelerdv1.TokenKind.
	Kinds []uint8
	Spans
}

// Name returns the text of a row of Names.
func (p *Parsed) Name(row int) string {
	return p.slice(p.Names, row)
}

// Constant returns the text of a row of Constants: numbers as written, and strings decoded.
func (p *Parsed) Constant(row int) string {
	return p.slice(p.Constants.Spans, row)
}

// slice returns a slice of the text followed by extra.
func (p *Parsed) slice(spans Spans, row int) string {
	start, end := int(spans.Starts[row]), int(spans.Ends[row])
	if start < len(p.Text) {
		return string(p.Text[start:end])
	}
	return string(p.extra[start-len(p.Text) : end-len(p.Text)])
}

// QualifiedName returns the name of an item of Outline after those of the classes and functions around it, with dots.
func (p *Parsed) QualifiedName(row int) string {
	item := p.Outline[row]
	if item.Parent == nil {
		return item.GetName()
	}
	return p.QualifiedName(int(item.GetParent())) + "." + item.GetName()
}

func (o *ParseOptions) request(sources [][]byte) *pb.ParseRequest {
	request := &pb.ParseRequest{Sources: sources}
	if o != nil {
		request.Outputs = o.Outputs
		request.FeatureVersion = uint32(o.FeatureVersion)
		request.Mode = o.Mode
		if o.IsText {
			request.SourceTypes = []pb.SourceType{pb.SourceType_SOURCE_TYPE_TEXT}
		}
	}
	return request
}

// Parse parses Python sources. A source with a syntax error has a diagnostic; the call succeeds.
func (c *Client) Parse(ctx context.Context, sources [][]byte, options *ParseOptions) ([]*Parsed, error) {
	response, err := c.parsing.Parse(ctx, options.request(sources))
	if err != nil {
		return nil, err
	}
	return split(sources, response)
}

// ParseOutcome is the result of a batch of a stream.
type ParseOutcome struct {
	// Sequence is the number of the batch, from 0.
	Sequence int
	// Parsed is nil if the batch failed.
	Parsed []*Parsed
	// Err says why the batch failed.
	Err error
}

// ParseStream parses batches of sources. Outcomes come in the order of completion. If the daemon ends, batches without an outcome are sent
// to the next one. An error ends the stream.
//
// Batches are read in a goroutine, which may still read one when the stream ends.
func (c *Client) ParseStream(ctx context.Context, batches iter.Seq[[][]byte], options *ParseOptions) iter.Seq2[ParseOutcome, error] {
	var sources syncMap[uint64, [][]byte]
	requests := numbered(batches, func(sequence uint64, batch [][]byte) (*pb.ParseStreamRequest, error) {
		sources.store(sequence, batch)
		return &pb.ParseStreamRequest{Sequence: sequence, Parse: options.request(batch)}, nil
	})
	open := pb.NewParseServiceClient(c.connections).ParseStream
	responses := resume(ctx, c, pb.ParseService_ParseStream_FullMethodName, inAnyOrder, open, requests)
	return mapped(responses, func(response *pb.ParseStreamResponse) (ParseOutcome, error) {
		batch := sources.take(response.GetSequence())
		outcome := ParseOutcome{Sequence: int(response.GetSequence())}
		if failed := response.GetError(); failed != nil {
			outcome.Err = fromItem(failed)
			return outcome, nil
		}
		var err error
		outcome.Parsed, err = split(batch, response.GetParse())
		return outcome, err
	})
}

// split returns the result of each source, from columns of all sources.
func split(sources [][]byte, response *pb.ParseResponse) ([]*Parsed, error) {
	if len(response.GetResults()) != len(sources) {
		return nil, malformed("%d results, expected %d", len(response.GetResults()), len(sources))
	}
	columns := newColumns(response)
	found := make([]*Parsed, len(sources))
	for at, result := range response.GetResults() {
		parsed, err := columns.next(result)
		if err != nil {
			return nil, err
		}
		if parsed.Text = result.GetText(); result.Text == nil {
			parsed.Text = sources[at]
		}
		if err := parsed.check(); err != nil {
			return nil, err
		}
		found[at] = parsed
	}
	return found, nil
}

// check verifies that positions and parents are within their ranges.
func (p *Parsed) check() error {
	for _, spans := range []Spans{p.Names, p.Constants.Spans} {
		for row, start := range spans.Starts {
			end := int(spans.Ends[row])
			limit := len(p.Text)
			if int(start) >= limit {
				limit += len(p.extra)
			}
			if int(start) > end || end > limit {
				return malformed("a name or constant from %d to %d", start, end)
			}
		}
	}
	for row, item := range p.Outline {
		if item.Parent != nil && int(item.GetParent()) >= row {
			return malformed("the parent %d of item %d of the outline", item.GetParent(), row)
		}
	}
	return nil
}

// columns are those of a response that no source has yet.
type columns struct {
	nodes      Nodes
	names      Spans
	constants  Constants
	tokens     Tokens
	comments   Spans
	lineStarts []uint32
	extra      []byte
}

func newColumns(response *pb.ParseResponse) *columns {
	nodes := response.GetNodes()
	values := response.GetValues()
	tokens := response.GetTokens()
	return &columns{
		nodes: Nodes{
			Kinds:   nodes.GetKinds(),
			Fields:  nodes.GetFields(),
			Parents: fromBytes[uint32](nodes.GetParents()),
			Starts:  fromBytes[uint32](nodes.GetStarts()),
			Ends:    fromBytes[uint32](nodes.GetEnds()),
			Aux:     fromBytes[uint32](nodes.GetAux()),
		},
		names:      newSpans(response.GetNames()),
		constants:  Constants{values.GetTags(), newSpans(values)},
		tokens:     Tokens{tokens.GetKinds(), newSpans(tokens)},
		comments:   newSpans(response.GetComments()),
		lineStarts: fromBytes[uint32](response.GetLineStarts()),
		extra:      response.GetExtra(),
	}
}

func newSpans(message interface {
	GetStarts() []byte
	GetEnds() []byte
}) Spans {
	return Spans{fromBytes[uint32](message.GetStarts()), fromBytes[uint32](message.GetEnds())}
}

// next returns the columns of the next source.
func (c *columns) next(result *pb.SourceResult) (*Parsed, error) {
	isComplete := true
	nodes, names, values := int(result.GetNodeCount()), int(result.GetNameCount()), int(result.GetValueCount())
	tokens, comments := int(result.GetTokenCount()), int(result.GetCommentCount())
	parsed := &Parsed{
		Diagnostic: result.GetDiagnostic(),
		Outline:    result.GetOutline(),
		Nodes: Nodes{
			Kinds:   take(&c.nodes.Kinds, nodes, &isComplete),
			Fields:  take(&c.nodes.Fields, nodes, &isComplete),
			Parents: take(&c.nodes.Parents, nodes, &isComplete),
			Starts:  take(&c.nodes.Starts, nodes, &isComplete),
			Ends:    take(&c.nodes.Ends, nodes, &isComplete),
			Aux:     take(&c.nodes.Aux, nodes, &isComplete),
		},
		Names:      takeSpans(&c.names, names, &isComplete),
		Constants:  Constants{take(&c.constants.Tags, values, &isComplete), takeSpans(&c.constants.Spans, values, &isComplete)},
		Tokens:     Tokens{take(&c.tokens.Kinds, tokens, &isComplete), takeSpans(&c.tokens.Spans, tokens, &isComplete)},
		Comments:   takeSpans(&c.comments, comments, &isComplete),
		LineStarts: take(&c.lineStarts, int(result.GetLineCount()), &isComplete),
		extra:      take(&c.extra, int(result.GetExtraSize()), &isComplete),
	}
	if !isComplete {
		return nil, malformed("columns that are too short")
	}
	return parsed, nil
}

func takeSpans(spans *Spans, count int, isComplete *bool) Spans {
	return Spans{take(&spans.Starts, count, isComplete), take(&spans.Ends, count, isComplete)}
}

// take returns the next elements of a column.
func take[T any](column *[]T, count int, isComplete *bool) []T {
	if count > len(*column) {
		*isComplete = false
		return nil
	}
	taken := (*column)[:count:count]
	*column = (*column)[count:]
	return taken
}
