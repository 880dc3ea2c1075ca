// The suite that all clients share: calls of tests/golden/cases.json against the daemons that the environment names.
#include <accelerd/client.h>
#include <doctest/doctest.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

using accelerd::Client;
using accelerd::ClientOptions;
using accelerd::Error;
using accelerd::Kernel;
using accelerd::Tensor;
using accelerd::Texts;
namespace v1 = accelerd::v1;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set: tests/golden starts the daemons of this suite");
  return value;
}

// A value of the cases.
class Case {
 public:
  explicit Case(const google::protobuf::Value& value) : value_(&value) {}

  Case operator[](const char* name) const { return Case(value_->struct_value().fields().at(name)); }
  std::string text() const { return value_->string_value(); }
  double number() const { return value_->number_value(); }
  bool boolean() const { return value_->bool_value(); }
  std::vector<Case> items() const {
    std::vector<Case> items;
    for (const auto& item : value_->list_value().values()) items.emplace_back(item);
    return items;
  }
  std::size_t size() const { return items().size(); }
  template <class T = float>
  std::vector<T> numbers() const {
    std::vector<T> numbers;
    for (const Case& item : items()) numbers.push_back(static_cast<T>(item.number()));
    return numbers;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const Case& item : items()) texts.push_back(item.text());
    return texts;
  }
  Tensor matrix() const {
    std::vector<std::vector<float>> rows;
    for (const Case& row : items()) rows.push_back(row.numbers());
    return Tensor::of_rows(rows);
  }
  Tensor vector() const { return Tensor::of({static_cast<std::int64_t>(size())}, numbers()); }

 private:
  const google::protobuf::Value* value_;
};

Case cases() {
  static const google::protobuf::Value read = [] {
    std::ifstream file(variable("ACCELERD_GOLDEN_CASES"));
    const std::string json(std::istreambuf_iterator<char>(file), {});
    google::protobuf::Value value;
    const auto status = google::protobuf::util::JsonStringToMessage(json, &value);
    if (!status.ok()) throw std::runtime_error(status.ToString());
    return value;
  }();
  return Case(read);
}

Client client() { return Client(variable("ACCELERD_GOLDEN_TARGET")); }

void check_close(accelerd::span<const float> actual, const Case& expected, double tolerance) {
  const auto numbers = expected.numbers<double>();
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(std::abs(actual[i] - numbers[i]) <= tolerance);
}

void check_embedding(const Tensor& vectors) {
  const Case expected = cases()["embed"];
  const auto rows = expected["first_components"].items();
  CHECK(vectors.shape() ==
        Tensor::Shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(expected["dimensions"].number())});
  for (std::size_t i = 0; i < rows.size(); ++i) check_close(vectors.row<float>(i), rows[i], expected["tolerance"].number());
}

Texts texts() { return cases()["embed"]["texts"].texts(); }

template <class Function>
Error error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("the call succeeded");
}

void check_hits(const accelerd::Collection& collection, const Case& search, const char* expected) {
  accelerd::SearchOptions options;
  options.limit = static_cast<std::uint32_t>(search["k"].number());
  options.filter = accelerd::Filter().must(accelerd::Condition::equals("language", search["where"]["language"].text()));
  const auto query = Tensor::of({1, static_cast<std::int64_t>(search["query"].size())}, search["query"].numbers());
  const auto hits = collection.search(query, options).at(0);
  const auto wanted = search[expected].items();
  REQUIRE(hits.size() == wanted.size());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    CHECK(std::get<std::uint64_t>(hits[i].id) == static_cast<std::uint64_t>(wanted[i]["id"].number()));
    CHECK(std::abs(hits[i].score - wanted[i]["score"].number()) <= search["tolerance"].number());
    CHECK(hits[i].payload.at("language").text() == "rust");
  }
}

void fail_like(const Client& client, const Case& expected) {
  const std::string call = expected["call"].text();
  if (call == "find_similar") {
    client.find_similar(expected["rows"].matrix(), expected["rows"].matrix(), static_cast<std::uint32_t>(expected["k"].number()));
  } else if (call == "count") {
    client.collection(expected["collection"].text()).count();
  } else if (call == "embed") {
    accelerd::EmbedOptions options;
    options.model = expected["model"].text();
    client.embed(expected["texts"].texts(), options);
  } else {
    throw std::logic_error("unknown call " + call);
  }
}

}  // namespace

TEST_CASE("golden: embed") { check_embedding(client().embed(texts()).vectors); }

TEST_CASE("golden: search") {
  const Case search = cases()["search"];
  const Client daemon = client();
  accelerd::CreateCollectionOptions options;
  options.dimensions = static_cast<std::uint32_t>(search["query"].size());
  const auto collection = daemon.create_collection("golden-cpp", options);
  std::vector<accelerd::Payload> payloads;
  for (const Case& payload : search["payloads"].items()) {
    payloads.push_back({{"language", payload["language"].text()}, {"line", static_cast<int>(payload["line"].number())}});
  }
  const auto written = collection.upsert({search["ids"].numbers<std::uint64_t>(), search["vectors"].matrix(), payloads});
  CHECK(written.inserted_count == search["ids"].size());
  accelerd::FilterOptions rust;
  rust.filter = accelerd::Filter().must(accelerd::Condition::equals("language", search["where"]["language"].text()));
  CHECK(collection.count(rust) == static_cast<std::uint64_t>(search["count_where"].number()));
  check_hits(collection, search, "hits");
  collection.delete_points(search["deleted"].numbers<std::uint64_t>());
  check_hits(collection, search, "hits_after_delete");
  daemon.delete_collection("golden-cpp");
}

TEST_CASE("golden: points are read back, and written in bulk") {
  const Client daemon = client();
  accelerd::CreateCollectionOptions options;
  options.dimensions = 2;
  const auto collection = daemon.create_collection("golden-cpp-points", options);
  std::uint64_t inserted = 0;
  std::vector<accelerd::Points> steps;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto first = static_cast<float>(i + 1);
    steps.push_back({{i}, Tensor::of<float>({1, 2}, {first, 1}), {{{"line", static_cast<int>(i)}}}});
  }
  for (const auto& result : collection.upsert_many(steps)) inserted += result.inserted_count;
  CHECK(inserted == 100);
  CHECK(collection.describe().point_count() == 100);
  accelerd::GetOptions with_vectors;
  with_vectors.include_vectors = true;
  const auto got = collection.get({7, 1000}, with_vectors);
  REQUIRE(got.size() == 1);
  CHECK(got[0].vector.size() == 2);
  CHECK(got[0].payload.at("line").integer() == 7);
  accelerd::ScrollOptions pages;
  pages.page_size = 30;
  std::uint64_t next = 0;
  for (const auto& point : collection.scroll(pages)) CHECK(std::get<std::uint64_t>(point.id) == next++);
  CHECK(next == 100);
  const auto clusters = collection.cluster(3);
  CHECK(clusters.ids.size() == 100);
  CHECK(clusters.centers.shape() == Tensor::Shape{3, 2});
  daemon.delete_collection(collection.name());
}

TEST_CASE("golden: parse") {
  const Case expected = cases()["parse"];
  accelerd::ParseOptions options;
  options.outputs = {v1::PARSE_OUTPUT_TREE, v1::PARSE_OUTPUT_OUTLINE};
  const auto parsed = client().parse({expected["source"].text(), expected["broken"].text()}, options);
  CHECK(parsed.at(0).nodes().size() == static_cast<std::size_t>(expected["node_count"].number()));
  const auto outline = expected["outline"].items();
  REQUIRE(parsed[0].outline().size() == static_cast<int>(outline.size()));
  for (int i = 0; i < parsed[0].outline().size(); ++i) {
    const Case& item = outline[static_cast<std::size_t>(i)];
    CHECK(parsed[0].qualified_name(i) == item["qualified_name"].text());
    CHECK(parsed[0].outline().Get(i).line() == static_cast<std::uint32_t>(item["line"].number()));
  }
  const auto* diagnostic = parsed[1].diagnostic();
  REQUIRE(diagnostic != nullptr);
  CHECK(diagnostic->message() == expected["diagnostic"]["message"].text());
  CHECK(diagnostic->lineno() == static_cast<int>(expected["diagnostic"]["line"].number()));
  CHECK(diagnostic->offset() == static_cast<int>(expected["diagnostic"]["offset"].number()));
}

TEST_CASE("golden: a stream of sources") {
  const std::string source = cases()["parse"]["source"].text();
  std::size_t batches = 0;
  for (const auto& outcome : client().parse_stream(std::vector<std::vector<accelerd::Source>>(3, {source, source}))) {
    REQUIRE(outcome.parsed.size() == 2);
    CHECK(outcome.parsed[1].nodes().size() == outcome.parsed[0].nodes().size());
    CHECK(outcome.parsed[1].name(0) == outcome.parsed[0].name(0));
    ++batches;
  }
  CHECK(batches == 3);
}

TEST_CASE("golden: tensor") {
  const Case expected = cases()["tensor"];
  const Client daemon = client();
  accelerd::Graph graph;
  const auto product = graph.op("matmul", {graph.input(expected["a"].matrix()), graph.input(expected["b"].matrix())});
  const auto softmax = graph.op("softmax", {product}, {{"dim", -1}});
  const auto computed = daemon.execute(graph, {softmax, product});
  const auto rows = expected["softmax_of_product"].items();
  for (std::size_t i = 0; i < rows.size(); ++i) check_close(computed.at(0).row<float>(i), rows[i], expected["tolerance"].number());
  CHECK(computed.at(1).shape() == Tensor::Shape{2, 2});
  const Tensor sums = daemon.op("sum", {computed[0]}, {{"dim", 1}});
  CHECK(std::abs(sums.values<float>()[0] - 1.0F) <= 1e-6F);
}

TEST_CASE("golden: tensors stay on the daemon") {
  const Client daemon = client();
  const Tensor large = Tensor::of({1 << 19}, std::vector<float>(1 << 19, 0.5F));
  const auto resident = daemon.upload(large);
  accelerd::Graph graph;
  const auto doubled = graph.op("add", {graph.input(resident), graph.input(resident)});
  const auto kept = daemon.keep(std::move(graph), {doubled}).at(0);
  const Tensor back = daemon.download(kept);
  CHECK(back.shape() == large.shape());
  CHECK(back.values<float>()[large.size() - 1] == 1.0F);
  daemon.free({resident, kept});
  CHECK(error_of([&] { daemon.download(kept); }).code() == accelerd::StatusCode::NOT_FOUND);
}

TEST_CASE("golden: kernel") {
  const Case expected = cases()["kernel"];
  const Client daemon = client();
  const Kernel kernel(expected["source"].text(), expected["name"].text());
  const accelerd::Tensors arguments = {{"a", Tensor::of<float>({}, {static_cast<float>(expected["a"].number())})},
                                       {"x", expected["x"].vector()},
                                       {"y", expected["y"].vector()}};
  accelerd::LaunchOptions options;
  options.grid = expected["grid"].numbers<std::int64_t>();
  const auto result = daemon.launch(kernel, arguments, options);
  CHECK_FALSE(result.fault);
  check_close(result.outputs.at("y").values<float>(), expected["written_y"], 0);
  options.grid = expected["faulting_grid"].numbers<std::int64_t>();
  const auto fault = daemon.launch(kernel, arguments, options).fault;
  REQUIRE(fault);
  const Case wanted = expected["fault"];
  CHECK(v1::KernelFaultKind_Name(fault->kind()) == wanted["kind"].text());
  CHECK(fault->thread() == static_cast<std::uint64_t>(wanted["thread"].number()));
  CHECK(fault->line() == static_cast<std::uint32_t>(wanted["line"].number()));
  CHECK(fault->index() == static_cast<std::int64_t>(wanted["index"].number()));
  CHECK(fault->extent() == static_cast<std::int64_t>(wanted["extent"].number()));
  const auto translated = daemon.translate(kernel);
  CHECK(translated.kernels(0).name() == expected["name"].text());
}

TEST_CASE("golden: verify") {
  const Case expected = cases()["verify"];
  const Client daemon = client();
  accelerd::CompareOptions options;
  options.atol = expected["atol"].number();
  options.rtol = expected["rtol"].number();
  const auto report = daemon.compare({{"y", expected["actual"].vector()}}, {{"y", expected["expected"].vector()}}, options);
  CHECK(report.passed() == expected["passed"].boolean());
  const auto& differences = report.outputs(0).differences();
  CHECK(differences.failed_count() == static_cast<std::uint64_t>(expected["failed_count"].number()));
  CHECK(differences.mismatches(0).index() == static_cast<std::uint64_t>(expected["mismatch"]["index"].number()));
  CHECK(differences.mismatches(0).actual() == expected["mismatch"]["actual"].number());
  CHECK(differences.mismatches(0).expected() == expected["mismatch"]["expected"].number());
  options.rtol = expected["passing_rtol"].number();
  CHECK(daemon.compare({{"y", expected["actual"].vector()}}, {{"y", expected["expected"].vector()}}, options).passed());
}

TEST_CASE("golden: functions are verified against each other") {
  const Client daemon = client();
  const Kernel reference("def f(x: float) -> float:\n    return x * 2.0\n");
  accelerd::VerifyOptions options;
  options.case_count = 100;
  CHECK(daemon.verify(Kernel("def f(x: float) -> float:\n    return x + x\n"), reference, options).passed());
  const auto summary = daemon.verify(Kernel("def f(x: float) -> float:\n    return x * 3.0\n"), reference, options);
  CHECK_FALSE(summary.passed());
  CHECK(summary.case_count() == 100);
  CHECK(summary.functions().counterexamples_size() > 0);
}

TEST_CASE("golden: errors") {
  const Client daemon = client();
  for (const Case& expected : cases()["errors"].items()) {
    const Error error = error_of([&] { fail_like(daemon, expected); });
    CHECK(accelerd::name_of(error.code()) == expected["code"].text());
    CHECK(error.message() == expected["message"].text());
    CHECK(error.reason() == expected["reason"].text());
    const auto fields = expected["fields"].texts();
    CHECK(error.violations().size() == fields.size());
    if (!fields.empty()) CHECK(error.field() == fields.front());
    if (error.code() == accelerd::StatusCode::NOT_FOUND) CHECK(error.resource_name() == "absent");
  }
}

TEST_CASE("golden: TLS with and without the token") {
  ClientOptions options;
  options.tls = accelerd::Tls{variable("ACCELERD_GOLDEN_CA"), {}, {}, {}};
  options.token = variable("ACCELERD_GOLDEN_TOKEN");
  const std::string target = variable("ACCELERD_GOLDEN_TLS_TARGET");
  check_embedding(Client(target, options).embed(texts()).vectors);
  options.token = "";
  const Error error = error_of([&] { Client(target, options).embed(texts()); });
  CHECK(accelerd::name_of(error.code()) == cases()["without_token"]["code"].text());
  CHECK(error.reason() == cases()["without_token"]["reason"].text());
}

TEST_CASE("golden: a deadline ends a call") {
  const Case slow = cases()["slow_kernel"];
  accelerd::LaunchOptions options;
  options.grid = slow["grid"].numbers<std::int64_t>();
  options.timeout = std::chrono::milliseconds(static_cast<int>(slow["deadline_ms"].number()));
  const Kernel kernel(slow["source"].text(), slow["name"].text());
  const Error error = error_of([&] { client().launch(kernel, {{"y", slow["y"].vector()}}, options); });
  CHECK(accelerd::name_of(error.code()) == slow["code"].text());
}

TEST_CASE("golden: a cancelled stream ends") {
  const Client daemon = client();
  const accelerd::CancellationSource source;
  accelerd::EmbedOptions options;
  options.cancellation = source.token();
  // The second batch is never answered: the call is cancelled before it is sent.
  const auto batches = [&source, sent = false]() mutable -> std::optional<Texts> {
    if (std::exchange(sent, true)) source.cancel();
    return texts();
  };
  auto outcomes = daemon.embed_stream(accelerd::Input<Texts>(batches), options, 1);
  check_embedding(outcomes.next().value().embeddings.value().vectors);
  CHECK(error_of([&] { outcomes.next(); }).code() == accelerd::StatusCode::CANCELLED);
}

TEST_CASE("golden: devices and statistics") {
  const Client daemon = client();
  CHECK(daemon.devices().back().name() == "cpu");
  CHECK_FALSE(daemon.stats().version().empty());
  CHECK(daemon.watch().next()->stats().version() == daemon.stats().version());
  CHECK(daemon.models().size() >= 1);
  CHECK(daemon.tokenize({"parse a date", ""}).at(0).size() >= 3);
  CHECK(error_of([&] { daemon.drain(); }).code() == accelerd::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("golden: a call and a stream survive a restart") {
  const Client daemon = client();
  check_embedding(daemon.embed(texts()).vectors);
  int batches = 0;
  const auto input = [&batches]() -> std::optional<Texts> {
    if (batches == 4) return std::nullopt;
    if (++batches == 3) REQUIRE(std::system(variable("ACCELERD_GOLDEN_RESTART").c_str()) == 0);
    return texts();
  };
  int outcomes = 0;
  for (const auto& outcome : daemon.embed_stream(accelerd::Input<Texts>(input), {}, 1)) {
    check_embedding(outcome.embeddings.value().vectors);
    ++outcomes;
  }
  CHECK(outcomes == 4);
  REQUIRE(std::system(variable("ACCELERD_GOLDEN_RESTART").c_str()) == 0);
  check_embedding(daemon.embed(texts()).vectors);
}
