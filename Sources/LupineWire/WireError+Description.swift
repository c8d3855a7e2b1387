extension WireError: CustomStringConvertible {
  /// One sentence for people: the fact, the setting that allows it if there is one, and the offset. Of what a peer sent it holds no more than
  /// one byte, as a number.
  public var description: String {
    "\(reason.text)\(setting.map { " (\($0))" } ?? ""), at byte \(offset)"
  }

  private var setting: String? {
    if let name = reason.limit { return "WireLimits.\(name)" }
    return reason.leniency.map { "WireLeniency.\($0)" }
  }
}

extension WireError.Reason {
  /// Nothing is wrong but that a limit of ours was passed.
  package var isLimit: Bool { limit != nil }

  /// The property of `WireLimits`.
  fileprivate var limit: String? {
    switch self {
    case .statusLineTooLong: "statusLine"
    case .fieldLineTooLong: "fieldLine"
    case .headTooLarge: "head"
    case .tooManyFields: "fields"
    case .tooManyInformationalHeads: "informationalHeads"
    case .chunkLineTooLong: "chunkLine"
    case .chunkExtensionsTooLarge: "chunkExtensions"
    case .trailersTooLarge: "trailers"
    case .tooManyTrailerFields: "trailerFields"
    default: nil
    }
  }

  /// The switch of `WireLeniency` that tolerates it, and what it says beyond its name.
  fileprivate var leniency: String? {
    switch self {
    case .leadingEmptyLine: "leadingEmptyLines accepts it"
    case .invalidStatusCode: "statusCodesAbove599 accepts 600 to 999"
    case .invalidReasonByte(let byte), .invalidFieldValueByte(let byte):
      byte == 0 ? nil : "controlBytesInValues accepts it"
    case .bareLineFeed: "bareLineFeed accepts it in heads, bareLineFeedInChunks in chunked bodies"
    case .obsoleteLineFolding: "obsoleteLineFolding accepts it"
    case .spaceBeforeColon: "spaceBeforeColon accepts it"
    case .contentLengthWithTransferEncoding: "contentLengthWithTransferEncoding accepts it"
    case .transferEncodingOnHTTP10: "transferEncodingOnHTTP10 accepts it"
    case .whitespaceAfterChunkSize: "whitespaceAfterChunkSize accepts it"
    default: nil
    }
  }

  fileprivate var text: String { responseText ?? framingText ?? requestText ?? "\(self)" }

  /// Of heads, and of their limits.
  private var responseText: String? {
    switch self {
    case .invalidStatusLine: "the response does not begin with a status line"
    case .alertOfTLS: "it is an alert of TLS (is this an https port?)"
    case .leadingEmptyLine: "an empty line stands before the status line"
    case .unsupportedVersion: "the major version of HTTP is not 1"
    case .invalidStatusCode: "the status code is not one of 100 to 599"
    case .invalidReasonByte(let byte): "\(Self.name(byte)) stands in the reason phrase"
    case .bareLineFeed: "a line ends with LF alone"
    case .bareCarriageReturn: "a CR is not followed by LF"
    case .whitespaceBeforeFirstField: "white space stands before the first field"
    case .obsoleteLineFolding: "a field is folded into several lines"
    case .spaceBeforeColon: "white space stands between the name of a field and its colon"
    case .missingColon: "a field has no colon"
    case .emptyFieldName: "a field has no name"
    case .invalidFieldNameByte(let byte): "\(Self.name(byte)) stands in the name of a field"
    case .invalidFieldValueByte(let byte): "\(Self.name(byte)) stands in the value of a field"
    case .statusLineTooLong(let limit): "the status line has more than \(limit) bytes"
    case .fieldLineTooLong(let limit): "a field has more than \(limit) bytes"
    case .headTooLarge(let limit): "the heads have more than \(limit) bytes"
    case .tooManyFields(let limit): "the heads have more than \(limit) fields"
    case .tooManyInformationalHeads(let limit): "more than \(limit) interim heads"
    case .chunkLineTooLong(let limit): "the line of a chunk's size has more than \(limit) bytes"
    case .chunkExtensionsTooLarge(let limit): "the chunk extensions have more than \(limit) bytes"
    case .trailersTooLarge(let limit): "the trailers have more than \(limit) bytes"
    case .tooManyTrailerFields(let limit): "there are more than \(limit) trailer fields"
    default: nil
    }
  }

  /// Of where a response ends.
  private var framingText: String? {
    switch self {
    case .invalidContentLength: "Content-Length is no number"
    case .contentLengthTooLarge: "Content-Length does not fit in 63 bits"
    case .conflictingContentLengths: "there are two different Content-Lengths"
    case .contentLengthWithTransferEncoding: "there are both Content-Length and Transfer-Encoding"
    case .unsupportedTransferEncoding: "Transfer-Encoding is not exactly one \"chunked\""
    case .transferEncodingOnHTTP10: "an HTTP/1.0 response has a Transfer-Encoding"
    case .unsolicitedUpgrade: "the server changes to another protocol (101), which is not followed"
    case .invalidChunkSizeByte(let byte): "\(Self.name(byte)) stands in the size of a chunk"
    case .whitespaceAfterChunkSize: "white space follows the size of a chunk"
    case .chunkSizeTooLarge: "the size of a chunk does not fit in 63 bits"
    case .invalidChunkExtensionByte(let byte): "\(Self.name(byte)) stands in a chunk extension"
    case .missingChunkEnd(let byte): "a chunk goes on with \(Self.name(byte)) where it should end"
    case .forbiddenTrailerField: "Content-Length or Transfer-Encoding stands in the trailers"
    case .closedBeforeResponse: "the connection was closed before the response"
    case .truncatedHead: "the head is not complete"
    case .truncatedBody(let missing): "\(missing) bytes of the body are missing"
    case .truncatedChunkedBody: "the chunked body is not complete"
    default: nil
    }
  }

  /// Of requests that are not written.
  private var requestText: String? {
    switch self {
    case .invalidMethod: "the method is empty or no token"
    case .invalidTarget: "the target is empty, or holds white space, a control byte or one above 0x7E"
    case .invalidFieldName: "the name of a field is empty or no token"
    case .invalidFieldValue: "the value of a field holds a control byte, or begins or ends with white space"
    case .contradictoryFraming: "Content-Length or Transfer-Encoding contradicts the body"
    case .invalidHost: "there is no Host, or more than one"
    case .invalidTrailerField: "a field must not stand in the trailers"
    case .lengthMismatch: "the body is longer than announced, or a length is negative"
    case .invalidBoundary: "the boundary is empty, too long, or holds what it must not"
    case .lengthTooLarge: "the lengths of the parts add up to more than 63 bits"
    default: nil
    }
  }

  private static func name(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 16, uppercase: true)
    return "the byte 0x" + (digits.count == 1 ? "0" : "") + digits
  }
}
