/// Why a response cannot be read, or a request not be written.
public struct WireError: Error, Equatable, Sendable {
  /// What is wrong.
  public var reason: Reason

  /// Where: bytes since the start of this response, informational heads included. For a request, bytes since the start of the part
  /// that the reason names.
  public var offset: Int

  /// - Parameters:
  ///   - reason: what is wrong.
  ///   - offset: bytes since the start of the response (or of the named part of a request).
  public init(_ reason: Reason, at offset: Int) {
    self.reason = reason
    self.offset = offset
  }

  /// Every fact that the wire can object to. Payloads are the offending byte, or the limit that was passed.
  public enum Reason: Equatable, Hashable, Sendable {
    // The status line (RFC 9112 section 4).
    /// The response does not start with `HTTP/d.d` and a space.
    case invalidStatusLine
    /// The response is an alert of TLS: the server wants TLS, and was sent a request as it is.
    case alertOfTLS
    /// An empty line stands before the status line. Leniency: ``WireLeniency/leadingEmptyLines``.
    case leadingEmptyLine
    /// The major version is not 1.
    case unsupportedVersion
    /// Not three digits, or outside 100 to 599. Leniency: ``WireLeniency/statusCodesAbove599``.
    case invalidStatusCode
    /// A control byte in the reason phrase. Leniency: ``WireLeniency/controlBytesInValues``.
    case invalidReasonByte(UInt8)

    // Lines (RFC 9112 sections 2.2 and 5).
    /// LF without CR. Leniency: ``WireLeniency/bareLineFeed``, ``WireLeniency/bareLineFeedInChunks``.
    case bareLineFeed
    /// CR without LF.
    case bareCarriageReturn
    /// White space before the first field line.
    case whitespaceBeforeFirstField
    /// A field line that starts with white space. Leniency: ``WireLeniency/obsoleteLineFolding``.
    case obsoleteLineFolding
    /// White space between name and colon. Leniency: ``WireLeniency/spaceBeforeColon``.
    case spaceBeforeColon
    /// A field line ends before its colon.
    case missingColon
    /// A field line starts with its colon.
    case emptyFieldName
    /// A byte that a token must not contain in a field name.
    case invalidFieldNameByte(UInt8)
    /// A control byte in a field value. Leniency for all but NUL: ``WireLeniency/controlBytesInValues``.
    case invalidFieldValueByte(UInt8)

    // Limits.
    /// More bytes than ``WireLimits/statusLine``.
    case statusLineTooLong(limit: Int)
    /// More bytes than ``WireLimits/fieldLine``.
    case fieldLineTooLong(limit: Int)
    /// More bytes than ``WireLimits/head``, all heads of the response together.
    case headTooLarge(limit: Int)
    /// More fields than ``WireLimits/fields``, all heads of the response together.
    case tooManyFields(limit: Int)
    /// More heads than ``WireLimits/informationalHeads``.
    case tooManyInformationalHeads(limit: Int)
    /// More bytes than ``WireLimits/chunkLine``.
    case chunkLineTooLong(limit: Int)
    /// More bytes than ``WireLimits/chunkExtensions``, all chunks of the body together.
    case chunkExtensionsTooLarge(limit: Int)
    /// More bytes than ``WireLimits/trailers``.
    case trailersTooLarge(limit: Int)
    /// More fields than ``WireLimits/trailerFields``.
    case tooManyTrailerFields(limit: Int)

    // Framing (RFC 9112 section 6).
    /// Content-Length is not a list of equal digit strings.
    case invalidContentLength
    /// Content-Length does not fit in 63 bits.
    case contentLengthTooLarge
    /// Two Content-Length values differ.
    case conflictingContentLengths
    /// Both fields in one head. Leniency: ``WireLeniency/contentLengthWithTransferEncoding``.
    case contentLengthWithTransferEncoding
    /// Transfer-Encoding is anything but exactly one `chunked`.
    case unsupportedTransferEncoding
    /// Transfer-Encoding in an HTTP/1.0 response. Leniency: ``WireLeniency/transferEncodingOnHTTP10``.
    case transferEncodingOnHTTP10
    /// A 101 response to a request that offered no upgrade.
    case unsolicitedUpgrade

    // Chunked bodies (RFC 9112 section 7.1).
    /// A byte that is no hexadecimal digit where the chunk size stands, or that must not follow it.
    case invalidChunkSizeByte(UInt8)
    /// White space after a chunk size that no extension follows. Leniency: ``WireLeniency/whitespaceAfterChunkSize``.
    case whitespaceAfterChunkSize
    /// A chunk size of more than 16 digits or more than 63 bits.
    case chunkSizeTooLarge
    /// A control byte in a chunk extension; a line end only where a quoted string is still open.
    case invalidChunkExtensionByte(UInt8)
    /// Chunk data goes on where its line end should be.
    case missingChunkEnd(UInt8)
    /// A trailer field that would frame the message: Content-Length or Transfer-Encoding.
    case forbiddenTrailerField

    // The peer closed its side.
    /// Before the first byte of this response.
    case closedBeforeResponse
    /// Inside the head.
    case truncatedHead
    /// Inside a body of known length; so many bytes are missing.
    case truncatedBody(missing: Int64)
    /// Before the end of a chunked body, its trailers and last empty line included.
    case truncatedChunkedBody

    // Requests that are not written. The offset counts inside the named part.
    /// The method is empty or holds a byte that a token must not contain.
    case invalidMethod
    /// The target is empty or holds white space, a control byte or a byte above 0x7E.
    case invalidTarget
    /// A field name is empty or no token.
    case invalidFieldName
    /// A field value holds a control byte other than HTAB, or starts or ends with white space.
    case invalidFieldValue
    /// The caller gave Content-Length or Transfer-Encoding, and it contradicts the framing of the body.
    case contradictoryFraming
    /// More than one Host field, or none in a request that must have one.
    case invalidHost
    /// A trailer field that must not be one.
    case invalidTrailerField
    /// The chunk or body would be longer than announced, or a length is negative.
    case lengthMismatch
    /// The boundary of a multipart body is empty, too long or holds what it must not (RFC 2046 section 5.1.1).
    case invalidBoundary
    /// The lengths of parts add up to more than 63 bits.
    case lengthTooLarge
  }
}
