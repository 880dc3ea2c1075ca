package io.accelerd;

import io.github.accelerd.v1.CaseVerdicts;
import io.github.accelerd.v1.ClusterRequest;
import io.github.accelerd.v1.Collection;
import io.github.accelerd.v1.CompareOutputsRequest;
import io.github.accelerd.v1.CompareOutputsResponse;
import io.github.accelerd.v1.CompileRequest;
import io.github.accelerd.v1.CompileResponse;
import io.github.accelerd.v1.CreateCollectionRequest;
import io.github.accelerd.v1.Device;
import io.github.accelerd.v1.DeviceServiceGrpc;
import io.github.accelerd.v1.DrainRequest;
import io.github.accelerd.v1.DrainResponse;
import io.github.accelerd.v1.EmbedRequest;
import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.EvictKernelRequest;
import io.github.accelerd.v1.FindSimilarRequest;
import io.github.accelerd.v1.FreeTensorsRequest;
import io.github.accelerd.v1.GetStatsRequest;
import io.github.accelerd.v1.GetStatsResponse;
import io.github.accelerd.v1.Kernel;
import io.github.accelerd.v1.KernelProgram;
import io.github.accelerd.v1.KernelServiceGrpc;
import io.github.accelerd.v1.LaunchRequest;
import io.github.accelerd.v1.ListCollectionsRequest;
import io.github.accelerd.v1.ListCollectionsResponse;
import io.github.accelerd.v1.ListDevicesRequest;
import io.github.accelerd.v1.ListDevicesResponse;
import io.github.accelerd.v1.ListKernelsRequest;
import io.github.accelerd.v1.ListKernelsResponse;
import io.github.accelerd.v1.ListModelsRequest;
import io.github.accelerd.v1.ListModelsResponse;
import io.github.accelerd.v1.ListTensorsRequest;
import io.github.accelerd.v1.ListTensorsResponse;
import io.github.accelerd.v1.Model;
import io.github.accelerd.v1.ParseRequest;
import io.github.accelerd.v1.RankedDocument;
import io.github.accelerd.v1.RerankRequest;
import io.github.accelerd.v1.RerankResponse;
import io.github.accelerd.v1.ResidentTensor;
import io.github.accelerd.v1.ResumeRequest;
import io.github.accelerd.v1.ResumeResponse;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import io.github.accelerd.v1.SourceType;
import io.github.accelerd.v1.TensorServiceGrpc;
import io.github.accelerd.v1.TokenizeRequest;
import io.github.accelerd.v1.TokenizeResponse;
import io.github.accelerd.v1.UploadTensorHeader;
import io.github.accelerd.v1.VerifyCases;
import io.github.accelerd.v1.VerifyHeader;
import io.github.accelerd.v1.VerifyServiceGrpc;
import io.github.accelerd.v1.VerifySummary;
import io.github.accelerd.v1.WatchRequest;
import io.github.accelerd.v1.WatchResponse;
import io.grpc.Channel;
import io.grpc.Deadline;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A client of accelerd. It is safe for use by several threads, and connects with the first call.
 *
 * <p>Calls throw an {@link AccelerdException} if they fail; those that return a future complete it with one, and cancel the call if the
 * future is cancelled. A parameter {@code options} sets further fields of the request, such as
 * {@code request -> request.setModel("minilm")}; docs/calls.md and the .proto files describe them.
 *
 * <p>A call has a deadline, by default after 60 s, until which it is retried. Streams have none, except that of the current
 * {@code io.grpc.Context}.
 */
public final class AccelerdClient implements AutoCloseable {
  /** The timeout of calls without a deadline. */
  public static final Duration NO_TIMEOUT = ChronoUnit.FOREVER.getDuration();

  private final Transport transport;
  private final Duration timeout;
  private final Caller caller;

  AccelerdClient(Transport transport, Duration timeout) {
    this.transport = transport;
    this.timeout = timeout;
    caller = new Caller(transport, timeout);
  }

  /** Begins a client of the daemon that the environment variable ACCELERD_SERVER names, or else of localhost:7433. */
  public static AccelerdClientBuilder builder() {
    return new AccelerdClientBuilder(null);
  }

  /**
   * Begins a client of a daemon: {@code host:port}, {@code http://host:port}, {@code https://host:port} or {@code unix:/path}. Calls
   * take turns between several, which commas separate.
   */
  public static AccelerdClientBuilder builder(String target) {
    return new AccelerdClientBuilder(target);
  }

  /** Returns a client with another timeout, which shares the connections. Only one of the clients is to be closed. */
  public AccelerdClient withTimeout(Duration timeout) {
    AccelerdClientBuilder.checkTimeout(timeout);
    return new AccelerdClient(transport, timeout);
  }

  /** The channel, with token, deadline and retries, for stubs such as {@code EmbedServiceGrpc.newBlockingStub(client.channel())}. */
  public Channel channel() {
    return caller.channel;
  }

  /** Closes the connections. Calls in progress fail. */
  @Override
  public void close() {
    transport.close();
  }

  /** Embeds texts with the built-in model. */
  public Embeddings embed(List<String> texts) {
    return embed(texts, options -> { });
  }

  /** Embeds texts. */
  public Embeddings embed(List<String> texts, Consumer<EmbedRequest.Builder> options) {
    return caller.run(Embeddings.operation(Embeddings.request(texts, options)));
  }

  /** As {@link #embed(List, Consumer)}. */
  public CompletableFuture<Embeddings> embedAsync(List<String> texts, Consumer<EmbedRequest.Builder> options) {
    return caller.start(Embeddings.operation(Embeddings.request(texts, options)));
  }

  /** Embeds lists of token ids. */
  public Embeddings embedTokens(List<int[]> tokens, Consumer<EmbedRequest.Builder> options) {
    return caller.run(Embeddings.operation(Embeddings.tokensRequest(tokens, options)));
  }

  /**
   * Embeds batches of texts, with several in flight. Results come in the order of completion. The batches are read on a thread of their
   * own. After a lost connection, batches without a result are sent again. Closing the stream ends the call.
   */
  public Stream<BatchResult<Embeddings>> embedStream(Stream<List<String>> batches, Consumer<EmbedRequest.Builder> options) {
    return BatchStreams.embed(caller, batches.map(texts -> Embeddings.request(texts, options)).iterator());
  }

  /** Ranks documents by their relevance to a query, with a cross-encoder. */
  public List<RankedDocument> rerank(String model, String query, List<String> documents, Consumer<RerankRequest.Builder> options) {
    return caller.run(rerankOperation(model, query, documents, options));
  }

  /** As {@link #rerank(String, String, List, Consumer)}. */
  public CompletableFuture<List<RankedDocument>> rerankAsync(
      String model, String query, List<String> documents, Consumer<RerankRequest.Builder> options) {
    return caller.start(rerankOperation(model, query, documents, options));
  }

  /** Converts texts to token ids with a model's tokenizer. */
  public List<int[]> tokenize(List<String> texts, Consumer<TokenizeRequest.Builder> options) {
    TokenizeRequest.Builder request = TokenizeRequest.newBuilder().setTexts(Texts.input("texts", texts));
    options.accept(request);
    return caller.run(new Operation<>(EmbedServiceGrpc.getTokenizeMethod(), request.build(), AccelerdClient::tokens));
  }

  /** Lists the loaded models. */
  public List<Model> models() {
    return caller.run(new Operation<>(
        EmbedServiceGrpc.getListModelsMethod(), ListModelsRequest.getDefaultInstance(), ListModelsResponse::getModelsList));
  }

  /** Returns the k rows of a corpus, f32 [n, dimensions], that are nearest to each query, f32 [queries, dimensions]. */
  public Neighbors findSimilar(Tensor queries, Tensor corpus, int k, Consumer<FindSimilarRequest.Builder> options) {
    return caller.run(Neighbors.operation(queries, corpus, k, options));
  }

  /** As {@link #findSimilar(Tensor, Tensor, int, Consumer)}. */
  public CompletableFuture<Neighbors> findSimilarAsync(
      Tensor queries, Tensor corpus, int k, Consumer<FindSimilarRequest.Builder> options) {
    return caller.start(Neighbors.operation(queries, corpus, k, options));
  }

  /** Clusters rows, f32 [n, dimensions], by k-means. */
  public Clusters cluster(Tensor rows, int count, Consumer<ClusterRequest.Builder> options) {
    return caller.run(Clusters.operation(ClusterRequest.newBuilder().setVectors(rows.toMessage()), count, options));
  }

  /** Returns a handle to a collection, without a call. */
  public CollectionClient collection(String name) {
    return new CollectionClient(caller, name);
  }

  /** Creates a collection: with {@code setDimensions}, or with {@code setModel} for texts. */
  public CollectionClient createCollection(String name, Consumer<CreateCollectionRequest.Builder> options) {
    CreateCollectionRequest.Builder request = CreateCollectionRequest.newBuilder().setName(name);
    options.accept(request);
    return caller.run(new Operation<>(
        SimilarityServiceGrpc.getCreateCollectionMethod(), request.build(), created -> collection(created.getCollection().getName())));
  }

  /** Lists all collections. */
  public List<Collection> collections() {
    return caller.run(new Operation<>(SimilarityServiceGrpc.getListCollectionsMethod(),
        ListCollectionsRequest.getDefaultInstance(), ListCollectionsResponse::getCollectionsList));
  }

  /** Parses texts in Python. A text with a syntax error has a diagnostic. */
  public List<ParsedSource> parse(List<String> texts) {
    return parse(texts, options -> { });
  }

  /** Parses texts in Python, with other outputs than the tree, or another grammar. */
  public List<ParsedSource> parse(List<String> texts, Consumer<ParseRequest.Builder> options) {
    return caller.run(ParsedSource.operation(parseRequest(texts, options)));
  }

  /** As {@link #parse(List, Consumer)}. */
  public CompletableFuture<List<ParsedSource>> parseAsync(List<String> texts, Consumer<ParseRequest.Builder> options) {
    return caller.start(ParsedSource.operation(parseRequest(texts, options)));
  }

  /** Parses batches of texts in Python as {@link #embedStream} embeds them. */
  public Stream<BatchResult<List<ParsedSource>>> parseStream(Stream<List<String>> batches, Consumer<ParseRequest.Builder> options) {
    return BatchStreams.parse(caller, batches.map(texts -> parseRequest(texts, options)).iterator());
  }

  /** Runs a graph of tensor operations. */
  public ExecuteResult execute(Graph graph) {
    return caller.run(ExecuteResult.operation(graph));
  }

  /** As {@link #execute(Graph)}. */
  public CompletableFuture<ExecuteResult> executeAsync(Graph graph) {
    return caller.start(ExecuteResult.operation(graph));
  }

  /** Copies a tensor to a device, where it stays until it is freed or expires. */
  public ResidentTensor upload(Tensor tensor, Consumer<UploadTensorHeader.Builder> options) {
    UploadTensorHeader.Builder header = UploadTensorHeader.newBuilder();
    options.accept(header);
    return TensorTransfers.upload(caller, tensor, header.build(), deadline());
  }

  /** Returns the elements of a resident tensor. */
  public Tensor download(ResidentTensor tensor) {
    return TensorTransfers.download(caller, tensor);
  }

  /** Frees resident tensors: all, or none if one does not exist. */
  public void free(ResidentTensor... tensors) {
    FreeTensorsRequest.Builder request = FreeTensorsRequest.newBuilder();
    for (ResidentTensor tensor : tensors) {
      request.addHandles(tensor.getHandle());
    }
    caller.run(new Operation<>(TensorServiceGrpc.getFreeTensorsMethod(), request.build(), response -> response));
  }

  /** Lists the caller's resident tensors, oldest first. */
  public List<ResidentTensor> tensors() {
    return caller.run(new Operation<>(
        TensorServiceGrpc.getListTensorsMethod(), ListTensorsRequest.getDefaultInstance(), ListTensorsResponse::getTensorsList));
  }

  /** Compiles the kernel of a program in Python, and keeps it on the daemon. */
  public Kernel compile(KernelProgram program) {
    CompileRequest request = CompileRequest.newBuilder().setProgram(program).build();
    return caller.run(new Operation<>(KernelServiceGrpc.getCompileMethod(), request, CompileResponse::getKernel));
  }

  /** Runs a compiled kernel. Throws a {@link KernelFaultException} if it does what its dialect forbids. */
  public LaunchResult launch(Kernel kernel, Map<String, Tensor> arguments, Consumer<LaunchRequest.Builder> options) {
    return caller.run(LaunchResult.operation(LaunchRequest.newBuilder().setKernelId(kernel.getId()), arguments, options));
  }

  /** Runs the kernel of a program, which is compiled on first use, as {@link #launch(Kernel, Map, Consumer)}. */
  public LaunchResult launch(KernelProgram program, Map<String, Tensor> arguments, Consumer<LaunchRequest.Builder> options) {
    return caller.run(LaunchResult.operation(LaunchRequest.newBuilder().setProgram(program), arguments, options));
  }

  /** As {@link #launch(KernelProgram, Map, Consumer)}. */
  public CompletableFuture<LaunchResult> launchAsync(
      KernelProgram program, Map<String, Tensor> arguments, Consumer<LaunchRequest.Builder> options) {
    return caller.start(LaunchResult.operation(LaunchRequest.newBuilder().setProgram(program), arguments, options));
  }

  /** Lists the kernels that the daemon keeps, the most recently used first. */
  public List<Kernel> kernels() {
    return caller.run(new Operation<>(
        KernelServiceGrpc.getListKernelsMethod(), ListKernelsRequest.getDefaultInstance(), ListKernelsResponse::getKernelsList));
  }

  /** Drops a kernel that the daemon keeps. */
  public void evict(Kernel kernel) {
    EvictKernelRequest request = EvictKernelRequest.newBuilder().setKernelId(kernel.getId()).build();
    caller.run(new Operation<>(KernelServiceGrpc.getEvictKernelMethod(), request, response -> response));
  }

  /** Compares tensors with the expected ones of the same names. */
  public CompareOutputsResponse compare(
      Map<String, Tensor> actual, Map<String, Tensor> expected, Consumer<CompareOutputsRequest.Builder> options) {
    CompareOutputsRequest.Builder request =
        CompareOutputsRequest.newBuilder().addAllActual(Inputs.of(actual)).addAllExpected(Inputs.of(expected));
    options.accept(request);
    return caller.run(new Operation<>(VerifyServiceGrpc.getCompareOutputsMethod(), request.build(), response -> response));
  }

  /** Verifies cases that the daemon generates: whether two functions compute the same. */
  public VerifySummary verify(VerifyHeader header) {
    return verify(header, List.of(), verdicts -> { });
  }

  /**
   * Verifies chunks of cases, and passes on the verdicts of each. The chunks are read on this thread; they are read again if the
   * connection breaks before the first verdict.
   */
  public VerifySummary verify(VerifyHeader header, Iterable<VerifyCases> chunks, Consumer<CaseVerdicts> onVerdicts) {
    return Verification.run(caller, header, chunks, onVerdicts, deadline());
  }

  /** Lists the GPUs in use, and the CPU. */
  public List<Device> devices() {
    return caller.run(new Operation<>(
        DeviceServiceGrpc.getListDevicesMethod(), ListDevicesRequest.getDefaultInstance(), ListDevicesResponse::getDevicesList));
  }

  /** Returns counters of queues, batches, memory and kernels. */
  public GetStatsResponse stats() {
    return caller.run(new Operation<>(DeviceServiceGrpc.getGetStatsMethod(), GetStatsRequest.getDefaultInstance(), stats -> stats));
  }

  /** Streams statistics at an interval, until the stream is closed. */
  public Stream<GetStatsResponse> watch(Duration interval) {
    WatchRequest request = WatchRequest.newBuilder().setInterval(Durations.message(interval)).build();
    return caller.responses(DeviceServiceGrpc.getWatchMethod(), request).map(WatchResponse::getStats);
  }

  /** Makes the daemon refuse new work, and waits for the calls in progress. */
  public DrainResponse drain(Duration wait) {
    DrainRequest request = DrainRequest.newBuilder().setTimeout(Durations.message(wait)).build();
    return caller.run(new Operation<>(DeviceServiceGrpc.getDrainMethod(), request, response -> response));
  }

  /** Ends a drain. Returns whether the daemon was drained. */
  public boolean resume() {
    return caller.run(
        new Operation<>(DeviceServiceGrpc.getResumeMethod(), ResumeRequest.getDefaultInstance(), ResumeResponse::getResumed));
  }

  /** The deadline of a call that streams its request. */
  private Deadline deadline() {
    return Durations.isForever(timeout) ? null : Deadline.after(Durations.nanos(timeout), TimeUnit.NANOSECONDS);
  }

  private static Operation<RerankRequest, RerankResponse, List<RankedDocument>> rerankOperation(
      String model, String query, List<String> documents, Consumer<RerankRequest.Builder> options) {
    RerankRequest.Builder request =
        RerankRequest.newBuilder().setModel(model).setQuery(query).setDocuments(Texts.input("documents", documents));
    options.accept(request);
    return new Operation<>(EmbedServiceGrpc.getRerankMethod(), request.build(), RerankResponse::getResultsList);
  }

  private static ParseRequest parseRequest(List<String> texts, Consumer<ParseRequest.Builder> options) {
    ParseRequest.Builder request =
        ParseRequest.newBuilder().addAllSources(Texts.encode("texts", texts)).addSourceTypes(SourceType.SOURCE_TYPE_TEXT);
    return ParsedSource.request(request, options);
  }

  private static List<int[]> tokens(TokenizeResponse response) {
    int[] ids = response.getTokens().getIdsList().stream().mapToInt(Integer::intValue).toArray();
    Iterator<Integer> offsets = response.getTokens().getOffsetsList().iterator();
    Stream.Builder<int[]> texts = Stream.builder();
    int start = offsets.hasNext() ? offsets.next() : 0;
    while (offsets.hasNext()) {
      int end = offsets.next();
      texts.add(Arrays.copyOfRange(ids, start, end));
      start = end;
    }
    return texts.build().collect(Collectors.toUnmodifiableList());
  }
}
