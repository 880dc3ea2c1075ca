package accelerd

import (
	"context"
	"iter"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// EmbedOptions are those of an embedding. Nil and zero values mean the model's defaults.
type EmbedOptions struct {
	// Model is the name or alias of a loaded model. Empty means the built-in one.
	Model string
	// Dimensions are the leading dimensions to keep.
	Dimensions int
	Normalize  *bool
	Pooling    Pooling
	// PromptName and Prompt select a prompt of the model, or are one.
	PromptName string
	Prompt     *string
	LongInput  LongInput
	MaxTokens  int
	OutputType OutputType
}

// Embeddings are vectors in the order of the inputs.
type Embeddings struct {
	// Vectors has the shape [inputs, dimensions].
	Vectors Tensor
	// Scales has a float32 for each vector of OutputInt8.
	Scales *Tensor
	// TokenCounts are the tokens of each input that the model read.
	TokenCounts []uint32
	Model       string
}

func (o *EmbedOptions) request() *pb.EmbedRequest {
	if o == nil {
		return &pb.EmbedRequest{}
	}
	return &pb.EmbedRequest{
		Model:      o.Model,
		Dimensions: uint32(o.Dimensions),
		Normalize:  o.Normalize,
		Pooling:    o.Pooling,
		PromptName: o.PromptName,
		Prompt:     o.Prompt,
		LongInput:  o.LongInput,
		MaxTokens:  uint32(o.MaxTokens),
		OutputType: o.OutputType,
	}
}

func (o *EmbedOptions) ofTexts(texts []string) *pb.EmbedRequest {
	request := o.request()
	request.Input = &pb.EmbedRequest_Texts{Texts: &pb.TextInput{Values: texts}}
	return request
}

// Embed embeds texts.
func (c *Client) Embed(ctx context.Context, texts []string, options *EmbedOptions) (*Embeddings, error) {
	response, err := c.embedding.Embed(ctx, options.ofTexts(texts))
	if err != nil {
		return nil, err
	}
	return embeddings(response)
}

// EmbedTokens embeds lists of token ids, such as those of [Client.Tokenize].
func (c *Client) EmbedTokens(ctx context.Context, tokens [][]uint32, options *EmbedOptions) (*Embeddings, error) {
	request := options.request()
	request.Input = &pb.EmbedRequest_Tokens{Tokens: tokenInput(tokens)}
	response, err := c.embedding.Embed(ctx, request)
	if err != nil {
		return nil, err
	}
	return embeddings(response)
}

func tokenInput(tokens [][]uint32) *pb.TokenInput {
	input := &pb.TokenInput{Offsets: []uint32{0}}
	for _, ids := range tokens {
		input.Ids = append(input.Ids, ids...)
		input.Offsets = append(input.Offsets, uint32(len(input.Ids)))
	}
	return input
}

func embeddings(response *pb.EmbedResponse) (*Embeddings, error) {
	vectors, err := received("embeddings", response.GetEmbeddings())
	if err != nil {
		return nil, err
	}
	found := &Embeddings{Vectors: vectors, TokenCounts: response.GetTokenCounts(), Model: response.GetModel()}
	if response.GetScales() != nil {
		scales, err := received("scales", response.GetScales())
		if err != nil {
			return nil, err
		}
		found.Scales = &scales
	}
	return found, nil
}

// EmbedOutcome is the result of a batch of a stream.
type EmbedOutcome struct {
	// Sequence is the number of the batch, from 0.
	Sequence int
	// Embeddings is nil if the batch failed.
	Embeddings *Embeddings
	// Err says why the batch failed.
	Err error
}

// EmbedStream embeds batches of texts. Outcomes come in the order of completion. If the daemon ends, batches without an outcome are sent
// to the next one. An error ends the stream.
//
// Batches are read in a goroutine, which may still read one when the stream ends.
func (c *Client) EmbedStream(ctx context.Context, batches iter.Seq[[]string], options *EmbedOptions) iter.Seq2[EmbedOutcome, error] {
	requests := numbered(batches, func(sequence uint64, texts []string) (*pb.EmbedStreamRequest, error) {
		return &pb.EmbedStreamRequest{Sequence: sequence, Embed: options.ofTexts(texts)}, nil
	})
	open := pb.NewEmbedServiceClient(c.connections).EmbedStream
	responses := resume(ctx, c, pb.EmbedService_EmbedStream_FullMethodName, inAnyOrder, open, requests)
	return mapped(responses, func(response *pb.EmbedStreamResponse) (EmbedOutcome, error) {
		outcome := EmbedOutcome{Sequence: int(response.GetSequence())}
		if failed := response.GetError(); failed != nil {
			outcome.Err = fromItem(failed)
			return outcome, nil
		}
		var err error
		outcome.Embeddings, err = embeddings(response.GetEmbed())
		return outcome, err
	})
}

// RerankOptions are those of a ranking. Nil and zero values mean the defaults.
type RerankOptions struct {
	// TopN is the maximum number of results. 0 means all documents.
	TopN int
	// RawScores asks for logits instead of scores from 0 to 1.
	RawScores bool
	MaxTokens int
}

// Ranked is a document and its score.
type Ranked struct {
	// Index is that of the document in the request.
	Index int
	// Score is the relevance; higher is better.
	Score float32
}

// Rerank ranks documents by their relevance to a query, best first. The model is a loaded cross-encoder.
func (c *Client) Rerank(ctx context.Context, model, query string, documents []string, options *RerankOptions) ([]Ranked, error) {
	request := &pb.RerankRequest{Model: model, Query: query, Documents: &pb.TextInput{Values: documents}}
	if options != nil {
		request.TopN = uint32(options.TopN)
		request.RawScores = options.RawScores
		request.MaxTokens = uint32(options.MaxTokens)
	}
	response, err := c.embedding.Rerank(ctx, request)
	if err != nil {
		return nil, err
	}
	found := make([]Ranked, len(response.GetResults()))
	for at, result := range response.GetResults() {
		found[at] = Ranked{int(result.GetIndex()), result.GetScore()}
	}
	return found, nil
}

// Tokenize returns the token ids of each text. An empty model means the built-in one.
func (c *Client) Tokenize(ctx context.Context, model string, texts []string) ([][]uint32, error) {
	response, err := c.embedding.Tokenize(ctx, &pb.TokenizeRequest{Model: model, Texts: &pb.TextInput{Values: texts}})
	if err != nil {
		return nil, err
	}
	ids := response.GetTokens().GetIds()
	offsets := response.GetTokens().GetOffsets()
	if len(offsets) != len(texts)+1 {
		return nil, malformed("%d offsets, expected %d", len(offsets), len(texts)+1)
	}
	found := make([][]uint32, len(texts))
	for at := range texts {
		start, stop := offsets[at], offsets[at+1]
		if start > stop || int(stop) > len(ids) {
			return nil, malformed("offsets %d and %d of %d tokens", start, stop, len(ids))
		}
		found[at] = ids[start:stop]
	}
	return found, nil
}

// Models returns the loaded models, sorted by name.
func (c *Client) Models(ctx context.Context) ([]*Model, error) {
	response, err := c.embedding.ListModels(ctx, &pb.ListModelsRequest{})
	return response.GetModels(), err
}

// LoadModel loads a model from a path of the daemon's machine, or from hf://owner/name.
func (c *Client) LoadModel(ctx context.Context, name, path string, aliases ...string) (*Model, error) {
	response, err := c.embedding.LoadModel(ctx, &pb.LoadModelRequest{Name: name, Path: path, Aliases: aliases})
	return response.GetModel(), err
}

// UnloadModel unloads a model.
func (c *Client) UnloadModel(ctx context.Context, name string) error {
	_, err := c.embedding.UnloadModel(ctx, &pb.UnloadModelRequest{Name: name})
	return err
}
