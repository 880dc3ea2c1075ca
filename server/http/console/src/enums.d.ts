/** Names of the numbers in the columns of a parse, which the build takes from proto/accelerd/v1/parse.proto. */
declare module "virtual:parse-enums" {
    export const NodeKind: string[];
    export const NodeField: string[];
    export const Operator: string[];
    export const TokenKind: string[];
    export const ValueTag: string[];
}
