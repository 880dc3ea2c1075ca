package io.accelerd;

import com.google.protobuf.ByteString;
import io.github.accelerd.v1.TextInput;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Texts of requests, which must have an encoding: protobuf would replace lone surrogates by question marks. */
final class Texts {
  private Texts() {}

  static TextInput input(String argument, List<String> texts) {
    encode(argument, texts);
    return TextInput.newBuilder().addAllValues(texts).build();
  }

  static List<ByteString> encode(String argument, List<String> texts) {
    List<ByteString> encoded = new ArrayList<>(texts.size());
    CharsetEncoder encoder = StandardCharsets.UTF_8.newEncoder();
    for (int index = 0; index < texts.size(); index++) {
      try {
        encoded.add(ByteString.copyFrom(encoder.encode(CharBuffer.wrap(texts.get(index)))));
      } catch (CharacterCodingException invalid) {
        throw new IllegalArgumentException(argument + "[" + index + "]: a lone surrogate has no encoding", invalid);
      }
    }
    return encoded;
  }
}
