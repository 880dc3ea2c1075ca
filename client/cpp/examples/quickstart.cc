// Indexes a few texts and searches them: `quickstart [TARGET]`.
#include <accelerd/client.h>

#include <iostream>

int main(int argc, char** argv) {
  try {
    const accelerd::Client client(argc > 1 ? argv[1] : "");
    accelerd::CreateCollectionOptions builtin;
    builtin.model = "builtin";
    const auto code = client.create_collection("quickstart", builtin);
    code.upsert({{1, 2}, accelerd::Texts{"open a socket", "compress a file"}, {{{"path", "net.py"}}, {{"path", "pack.py"}}}});
    const auto results = code.search(accelerd::Texts{"tcp connection"});
    for (const auto& hit : results.front()) {
      std::cout << hit.score << ' ' << hit.payload.at("path").text() << '\n';
    }
    client.delete_collection("quickstart");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
