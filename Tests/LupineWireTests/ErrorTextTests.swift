import LupineWire
import Testing

/// What people read of a `WireError`.
@Suite struct ErrorTextTests {
  private static let reasons: [WireError.Reason] = [
    .invalidStatusLine, .alertOfTLS, .leadingEmptyLine, .unsupportedVersion, .invalidStatusCode, .invalidReasonByte(7),
    .bareLineFeed,
    .bareCarriageReturn, .whitespaceBeforeFirstField, .obsoleteLineFolding, .spaceBeforeColon, .missingColon,
    .emptyFieldName, .invalidFieldNameByte(64), .invalidFieldValueByte(1), .invalidContentLength,
    .contentLengthTooLarge, .conflictingContentLengths, .contentLengthWithTransferEncoding,
    .unsupportedTransferEncoding, .transferEncodingOnHTTP10, .unsolicitedUpgrade, .invalidChunkSizeByte(120),
    .whitespaceAfterChunkSize, .chunkSizeTooLarge, .invalidChunkExtensionByte(1), .missingChunkEnd(65),
    .forbiddenTrailerField, .closedBeforeResponse, .truncatedHead, .truncatedBody(missing: 600_000),
    .truncatedChunkedBody, .invalidMethod, .invalidTarget, .invalidFieldName, .invalidFieldValue,
    .contradictoryFraming, .invalidHost, .invalidTrailerField, .lengthMismatch, .invalidBoundary, .lengthTooLarge,
  ]
  private static let limits: [(WireError.Reason, String)] = [
    (.statusLineTooLong(limit: 31), "statusLine"), (.fieldLineTooLong(limit: 31), "fieldLine"),
    (.headTooLarge(limit: 31), "head"), (.tooManyFields(limit: 31), "fields"),
    (.tooManyInformationalHeads(limit: 31), "informationalHeads"), (.chunkLineTooLong(limit: 31), "chunkLine"),
    (.chunkExtensionsTooLarge(limit: 31), "chunkExtensions"), (.trailersTooLarge(limit: 31), "trailers"),
    (.tooManyTrailerFields(limit: 31), "trailerFields"),
  ]

  @Test func everyReasonIsASentenceOfItsOwn() {
    let texts = (Self.reasons + Self.limits.map(\.0)).map { "\(WireError($0, at: 4_711))" }
    #expect(Set(texts).count == texts.count)
    for text in texts {
      #expect(text.contains("byte 4711"))
      #expect(!text.contains("WireError") && !text.contains("Reason") && text.contains(" "), "\(text)")
    }
    #expect("\(WireError(.truncatedBody(missing: 600_000), at: 1))".contains("600000 bytes"))
    #expect("\(WireError(.invalidFieldNameByte(64), at: 1))".contains("byte 0x40"))
  }

  @Test(arguments: limits) func limitsNameTheirSetting(_ reason: WireError.Reason, _ setting: String) {
    let text = "\(WireError(reason, at: 1))"
    #expect(text.contains("31") && text.contains("WireLimits.\(setting))"), "\(text)")
  }

  @Test(
    arguments: [
      (.leadingEmptyLine, "leadingEmptyLines"), (.invalidStatusCode, "statusCodesAbove599"),
      (.invalidReasonByte(1), "controlBytesInValues"), (.bareLineFeed, "bareLineFeed"),
      (.obsoleteLineFolding, "obsoleteLineFolding"), (.spaceBeforeColon, "spaceBeforeColon"),
      (.invalidFieldValueByte(1), "controlBytesInValues"),
      (.contentLengthWithTransferEncoding, "contentLengthWithTransferEncoding"),
      (.transferEncodingOnHTTP10, "transferEncodingOnHTTP10"), (.whitespaceAfterChunkSize, "whitespaceAfterChunkSize"),
    ] as [(WireError.Reason, String)])
  func whatCanBeToleratedNamesTheSwitch(_ reason: WireError.Reason, _ name: String) {
    let text = "\(WireError(reason, at: 1))"
    #expect(text.contains("WireLeniency.\(name)"), "\(text)")
  }

  @Test func noSwitchToleratesNUL() {
    #expect(!"\(WireError(.invalidFieldValueByte(0), at: 1))".contains("WireLeniency"))
  }
}
