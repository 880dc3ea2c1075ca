package accelerd

import pb "github.com/accelerd/accelerd/client/go/accelerd/v1"

// Messages of the protocol that the client returns as they are.
type (
	// Model is a loaded model.
	Model = pb.Model
	// CollectionInfo describes a collection.
	CollectionInfo = pb.Collection
	// Snapshot is a stored copy of a collection.
	Snapshot = pb.Snapshot
	// Device is a GPU, or the CPU worker pool.
	Device = pb.Device
	// Stats are counters of queues, batches, memory and kernels.
	Stats = pb.GetStatsResponse
	// Diagnostic is the first error of a source, as CPython reports it.
	Diagnostic = pb.Diagnostic
	// OutlineItem is a function, class or import.
	OutlineItem = pb.OutlineItem
	// CompiledKernel is a kernel that the daemon has compiled.
	CompiledKernel = pb.Kernel
	// Policy says which elements of two tensors count as equal.
	Policy = pb.ComparisonPolicy
	// Tolerance is a rule of a policy; see [Exactly], [Within], [WithinULPs] and [WithinMaxNorm].
	Tolerance = pb.Tolerance
	// Comparison says whether outputs pass, and how they differ.
	Comparison = pb.CompareOutputsResponse
	// VerifySummary is the result of a verification.
	VerifySummary = pb.VerifySummary
)

// Dtype is the element type of a tensor.
type Dtype = pb.Dtype

// The element types.
const (
	F16  = pb.Dtype_DTYPE_F16
	BF16 = pb.Dtype_DTYPE_BF16
	F32  = pb.Dtype_DTYPE_F32
	F64  = pb.Dtype_DTYPE_F64
	I8   = pb.Dtype_DTYPE_I8
	I16  = pb.Dtype_DTYPE_I16
	I32  = pb.Dtype_DTYPE_I32
	I64  = pb.Dtype_DTYPE_I64
	U8   = pb.Dtype_DTYPE_U8
	U16  = pb.Dtype_DTYPE_U16
	U32  = pb.Dtype_DTYPE_U32
	U64  = pb.Dtype_DTYPE_U64
	Bool = pb.Dtype_DTYPE_BOOL
)

// Metric is a similarity of vectors.
type Metric = pb.Metric

// The metrics. Unset means Cosine.
const (
	Cosine    = pb.Metric_METRIC_COSINE
	Dot       = pb.Metric_METRIC_DOT
	SquaredL2 = pb.Metric_METRIC_SQUARED_L2
)

// Durability says whether a collection survives a restart.
type Durability = pb.Durability

// The durabilities. Unset means DurabilityLog if the daemon has a data folder.
const (
	DurabilityMemory = pb.Durability_DURABILITY_MEMORY
	DurabilityLog    = pb.Durability_DURABILITY_LOG
)

// Fusion combines the ranks of vectors and words in a hybrid search.
type Fusion = pb.Fusion

// The fusions.
const (
	RelativeScore  = pb.Fusion_FUSION_RELATIVE_SCORE
	ReciprocalRank = pb.Fusion_FUSION_RECIPROCAL_RANK
)

// Pooling makes the vector of an input of the hidden states of its tokens.
type Pooling = pb.Pooling

// The poolings. Unset means the model's.
const (
	PoolingCLS          = pb.Pooling_POOLING_CLS
	PoolingMean         = pb.Pooling_POOLING_MEAN
	PoolingMax          = pb.Pooling_POOLING_MAX
	PoolingLast         = pb.Pooling_POOLING_LAST
	PoolingWeightedMean = pb.Pooling_POOLING_WEIGHTED_MEAN
	// PoolingNone returns a vector for each token.
	PoolingNone = pb.Pooling_POOLING_NONE
)

// OutputType is the element type of embeddings.
type OutputType = pb.OutputType

// The output types. Unset means OutputF32.
const (
	OutputF32  = pb.OutputType_OUTPUT_TYPE_F32
	OutputF16  = pb.OutputType_OUTPUT_TYPE_F16
	OutputBF16 = pb.OutputType_OUTPUT_TYPE_BF16
	// OutputInt8 has a scale for each vector.
	OutputInt8 = pb.OutputType_OUTPUT_TYPE_INT8
	// OutputBinary has a bit for each dimension.
	OutputBinary = pb.OutputType_OUTPUT_TYPE_BINARY
)

// LongInput says how an input of too many tokens is handled.
type LongInput = pb.LongInput

// The ways to handle long inputs. Unset means LongInputTruncate.
const (
	LongInputTruncate = pb.LongInput_LONG_INPUT_TRUNCATE
	LongInputError    = pb.LongInput_LONG_INPUT_ERROR
	LongInputChunk    = pb.LongInput_LONG_INPUT_CHUNK
)

// ParseOutput is a part of the result of a parse.
type ParseOutput = pb.ParseOutput

// The outputs of a parse.
const (
	OutputTree       = pb.ParseOutput_PARSE_OUTPUT_TREE
	OutputTokens     = pb.ParseOutput_PARSE_OUTPUT_TOKENS
	OutputComments   = pb.ParseOutput_PARSE_OUTPUT_COMMENTS
	OutputOutline    = pb.ParseOutput_PARSE_OUTPUT_OUTLINE
	OutputLineStarts = pb.ParseOutput_PARSE_OUTPUT_LINE_STARTS
)

// ParseMode is the start rule of a parse.
type ParseMode = pb.ParseMode

// The start rules. Unset means ModeExec.
const (
	ModeExec   = pb.ParseMode_PARSE_MODE_EXEC
	ModeEval   = pb.ParseMode_PARSE_MODE_EVAL
	ModeSingle = pb.ParseMode_PARSE_MODE_SINGLE
)

// Dialect is the language of a kernel.
type Dialect = pb.KernelDialect

// The dialects.
const (
	DialectWarp   = pb.KernelDialect_KERNEL_DIALECT_WARP
	DialectPython = pb.KernelDialect_KERNEL_DIALECT_PYTHON
)

// KernelDevice says where a kernel runs.
type KernelDevice = pb.KernelDevice

// Where kernels run. Unset means OnCPU.
const (
	OnCPU  = pb.KernelDevice_KERNEL_DEVICE_CPU
	OnCUDA = pb.KernelDevice_KERNEL_DEVICE_CUDA
)
