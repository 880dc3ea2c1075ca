import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";

/** The fields of a message that is not made yet. */
export type Init<T extends DescMessage> = Exclude<MessageInitShape<T>, { readonly $typeName: string }>;
