// Measures bulk writes: `upsert --target localhost:7433 --points 100000 --dimensions 256 --batch 1000` generates vectors, writes them
// to a collection that it deletes again, and prints {"points": n, "seconds": s}.
#include <accelerd/client.h>

#include <chrono>
#include <iostream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

namespace {

struct Arguments {
  std::string target;
  std::uint64_t points = 100'000;
  std::uint64_t dimensions = 256;
  std::uint64_t batch = 1000;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  const std::map<std::string, std::uint64_t*> numbers = {
      {"--points", &arguments.points}, {"--dimensions", &arguments.dimensions}, {"--batch", &arguments.batch}};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + ": expected a value");
    if (name == "--target") {
      arguments.target = argv[i + 1];
    } else if (const auto found = numbers.find(name); found != numbers.end()) {
      *found->second = std::stoull(argv[i + 1]);
      if (*found->second == 0) throw std::invalid_argument(name + ": expected at least 1");
    } else {
      throw std::invalid_argument("expected --target, --points, --dimensions or --batch, got " + name);
    }
  }
  return arguments;
}

std::vector<accelerd::Points> generate(const Arguments& arguments) {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<accelerd::Points> batches;
  for (std::uint64_t start = 0; start < arguments.points; start += arguments.batch) {
    const std::uint64_t count = std::min(arguments.batch, arguments.points - start);
    std::vector<std::uint64_t> ids(count);
    std::vector<float> values(count * arguments.dimensions);
    for (std::uint64_t i = 0; i < count; ++i) ids[i] = start + i;
    for (float& value : values) value = uniform(generator);
    const accelerd::Tensor::Shape shape = {static_cast<std::int64_t>(count), static_cast<std::int64_t>(arguments.dimensions)};
    batches.push_back({std::move(ids), accelerd::Tensor::of(shape, values), {}});
  }
  return batches;
}

void run(const Arguments& arguments) {
  const accelerd::Client client(arguments.target);
  std::vector<accelerd::Points> batches = generate(arguments);
  accelerd::CreateCollectionOptions options;
  options.dimensions = static_cast<std::uint32_t>(arguments.dimensions);
  const auto collection = client.create_collection("upsert-cpp", options);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t written = 0;
  for (const auto& result : collection.upsert_many(std::move(batches))) written += result.inserted_count;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  client.delete_collection(collection.name());
  std::cout << "{\"points\": " << written << ", \"seconds\": " << seconds.count() << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
