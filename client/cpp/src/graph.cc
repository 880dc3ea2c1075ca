#include "accelerd/graph.h"

namespace accelerd {

v1::TensorInput to_message(const std::string& name, TensorSource source) {
  v1::TensorInput input;
  input.set_name(name);
  if (auto* tensor = std::get_if<Tensor>(&source)) {
    *input.mutable_value() = std::move(*tensor).to_message();
  } else {
    input.set_handle(std::get<ResidentTensor>(source).handle());
  }
  return input;
}

Graph::Value Graph::input(TensorSource source) {
  Value value("x" + std::to_string(request_.inputs_size()));
  *request_.add_inputs() = accelerd::to_message(value.name_, std::move(source));
  return value;
}

Graph::Value Graph::op(const std::string& name, const std::vector<Value>& operands, const std::map<std::string, Attribute>& attributes) {
  Value value("y" + std::to_string(request_.nodes_size()));
  auto& node = *request_.add_nodes();
  node.set_name(value.name_);
  node.set_op(name);
  for (const auto& operand : operands) node.add_inputs(operand.name_);
  for (const auto& [key, attribute] : attributes) (*node.mutable_attributes())[key] = attribute.message();
  return value;
}

v1::ExecuteRequest Graph::to_message(const std::vector<Value>& outputs, bool keep) const& { return Graph(*this).to_message(outputs, keep); }

v1::ExecuteRequest Graph::to_message(const std::vector<Value>& outputs, bool keep) && {
  for (const auto& output : outputs) {
    auto& message = *request_.add_outputs();
    message.set_name(output.name_);
    message.set_keep(keep);
  }
  return std::move(request_);
}

}  // namespace accelerd
