import LupineRules
import Testing

@Suite struct ResumeRecordTests {
  static func record(
    url: String = "https://example.com/a/b?c=d", tag: String = "\"v1\"", offset: Int64 = 70_000, total: Int64? = 90_000,
    final: String? = nil, name: String = "0C6A2D0E.part"
  ) throws -> ResumeRecord {
    let url = try URLReader.read(url)
    let validator = try #require(
      ResumeValidator(entityTags: [tag], lastModified: [], dates: [], now: HTTPDate(seconds: 0)))
    return try ResumeRecord(
      url: url, source: ResumeSource(final.map(URLReader.read) ?? url, for: validator), validator: validator,
      offset: offset, total: total, headHash: digest([1]), tailHash: digest([2]),
      partialName: name, createdAt: 1_790_000_000)
  }

  @Test(arguments: [
    "http://a/", "https://example.com:8443/a%20b?c=d&e", "http://[2001:db8::1]:8080/x", "https://127.0.0.1/",
    "http://[fe80::1%25eth0]:8080/x?y",
    "https://example.com/" + String(repeating: "x", count: 60_000),
  ]) func roundTrip(_ url: String) throws {
    for total in [nil, 70_000, Int64.max] {
      for tag in ["\"\"", "\"" + String(repeating: "y", count: 4000) + "\""] {
        let record = try Self.record(url: url, tag: tag, total: total)
        let bytes = try record.encoded()
        #expect(bytes.count <= ResumeRecord.maximumSize)
        #expect(try ResumeRecord(decoding: bytes) == record)
        #expect(try ResumeRecord(decoding: bytes).encoded() == bytes)
      }
    }
  }

  @Test func datesToo() throws {
    let url = try URLReader.read("http://a/")
    let validator = try #require(
      ResumeValidator(
        entityTags: [], lastModified: ["Sun, 06 Nov 1994 08:49:37 GMT"], dates: ["Tue, 15 Nov 1994 08:12:31 GMT"],
        now: HTTPDate(seconds: 0)))
    let hash = digest([])
    let record = try ResumeRecord(
      url: url, source: ResumeSource(url, for: validator), validator: validator, offset: 1, total: nil, headHash: hash,
      tailHash: hash,
      partialName: "x", createdAt: -1)
    #expect(try ResumeRecord(decoding: record.encoded()) == record)
  }

  /// What the format holds, byte for byte: data of an older Lupine must stay readable.
  @Test func formatOfVersionOne() throws {
    let bytes = try Self.record(url: "http://a/", tag: "\"v\"", offset: 1, total: 2, name: "p").encoded()
    let head = Array("lupineRD".utf8) + [1, 0, 1, 0, 9] + Array("http://a/".utf8) + [2, 0, 8] + Array("http://a".utf8)
    let numbers: [UInt8] = [3, 0, 3, 34, 118, 34, 5, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2]
    #expect(Array(bytes.prefix(head.count + numbers.count)) == head + numbers)
    let rest = bytes.dropFirst(head.count + numbers.count)
    #expect(rest.prefix(3) == [7, 0, 32] && rest.dropFirst(35).prefix(3) == [8, 0, 32])
    #expect(rest.dropFirst(70).prefix(4) == [9, 0, 1, 112])
    #expect(rest.dropFirst(74).prefix(3) == [10, 0, 8])
    #expect(rest.count == 74 + 11 + 8)
    #expect(Array(rest.suffix(8)) == Array(digest(Array(bytes.dropLast(8))).prefix(8)))
  }

  /// The zone of an address says whose it is; older records have it in the origin only.
  @Test(arguments: ["http://[fe80::1%25eth0]/f?x", "http://[fe80::1]/f?x"]) func zones(_ url: String) throws {
    let there = try URLReader.read("http://[fe80::1%25eth0]/f?x")
    let known = try Self.record()
    let record = try ResumeRecord(
      url: URLReader.read(url), source: ResumeSource(there, for: known.validator), validator: known.validator,
      offset: known.offset,
      total: known.total, headHash: known.headHash, tailHash: known.tailHash, partialName: "p", createdAt: 0)
    let read = try ResumeRecord(decoding: record.encoded())
    #expect(read == record && read.isOf(there))
    for other in ["http://[fe80::1%25eth1]/f?x", "http://[fe80::1%25eth0]/f?y", "http://[fe80::2%25eth0]/f?x"] {
      #expect(try !read.isOf(URLReader.read(other)))
    }
  }

  /// Behind a redirect there is one field more: the digest of the path that it led to, or with a date of path and query.
  @Test func whereARedirectLed() throws {
    let paths = ["https://example.com/other?c=d", "https://cdn.example/a/b/c", "https://example.com/A/b?c=d"]
    for final in paths {
      let record = try Self.record(final: final)
      let bytes = try record.encoded()
      let read = try ResumeRecord(decoding: bytes)
      #expect(try read == record && read.source == ResumeSource(URLReader.read(final), for: record.validator))
      #expect(try read.source != ResumeSource(URLReader.read("https://example.com/a/b"), for: record.validator))
      #expect(try bytes.count == Self.record().encoded().count + 35)
      let path = try URLReader.read(final).path
      #expect(Array(bytes.dropLast(8).suffix(35)) == [11, 0, 32] + digest(Array(path.utf8)))
    }
    // Of the path itself nothing is written that was not before.
    let plain = try Self.record(final: "https://example.com/a/b?signature=x")
    #expect(try plain.encoded() == Self.record().encoded())
  }

  @Test func secretsStayOut() throws {
    let bytes = try Self.record(url: "https://user:secret@example.com/a#fragment").encoded()
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(!text.contains("secret") && !text.contains("user") && !text.contains("fragment"))
    #expect(try ResumeRecord(decoding: bytes).url.userinfo == nil)
  }

  @Test func everyChangedByteIsNoticed() throws {
    let bytes = try Self.record().encoded()
    for index in bytes.indices {
      var changed = bytes
      changed[index] ^= 0x11
      #expect(throws: ResumeRecordError.self) { try ResumeRecord(decoding: changed) }
    }
    for count in 0..<bytes.count {
      #expect(throws: ResumeRecordError.self) { try ResumeRecord(decoding: Array(bytes.prefix(count))) }
    }
    #expect(throws: ResumeRecordError.self) { try ResumeRecord(decoding: bytes + [0]) }
    #expect(throws: ResumeRecordError.tooLarge(count: 65_537, limit: 65_536)) {
      try ResumeRecord(decoding: [UInt8](repeating: 0, count: 65_537))
    }
  }

  /// Somebody who changes a field can make the checksum right again: then the field itself must be refused.
  static let forgeries: [(UInt8, [UInt8]?, ResumeRecordError)] = [
    (1, nil, .missingField(.url)),
    (1, Array("ftp://example.com/".utf8), .badURL),
    (1, Array("".utf8), .badURL),
    (1, Array("HTTPS://example.com/".utf8), .badURL),
    (1, Array("https://example.com:443/".utf8), .badURL),
    (1, Array("https://u:p@example.com/".utf8), .urlHoldsSecrets),
    (1, Array("https://example.com/#f".utf8), .urlHoldsSecrets),
    (1, Array("https://example.com/\r\nX: y".utf8), .badURL),
    (1, [0xFF], .notText(.url)),
    (2, nil, .missingField(.finalOrigin)),
    (2, Array("https://example.com/".utf8), .badOrigin),
    (2, Array("https://example.com/path".utf8), .badOrigin),
    (2, Array("https://u@example.com".utf8), .badOrigin),
    (3, nil, .badValidator),
    (3, Array("W/\"v1\"".utf8), .badValidator),
    (3, Array("v1".utf8), .badValidator),
    (3, Array("\"v1\"\r\nX: y".utf8), .badValidator),
    (3, Array("\"v\r\n1\"".utf8), .badValidator),
    (4, Array("Sun, 06 Nov 1994 08:49:37 GMT".utf8), .badValidator),
    (5, nil, .missingField(.offset)),
    (5, [0, 0, 0, 0, 0, 0, 0], .badLength(.offset, 7)),
    (5, [0, 0, 0, 0, 0, 0, 0, 0], .badOffset(0)),
    (5, [UInt8](repeating: 0xFF, count: 8), .badOffset(-1)),
    (6, [0, 0, 0, 0, 0, 0, 0, 1], .badTotal(1)),
    (6, [], .badLength(.total, 0)),
    (7, nil, .missingField(.headHash)),
    (7, [1], .badLength(.headHash, 1)),
    (8, nil, .missingField(.tailHash)),
    (8, [UInt8](repeating: 0, count: 33), .badLength(.tailHash, 33)),
    (9, nil, .missingField(.partialName)),
    (9, [], .badName),
    (9, Array(".".utf8), .badName),
    (9, Array("..".utf8), .badName),
    (9, Array("../../etc/passwd".utf8), .badName),
    (9, Array("/etc/passwd".utf8), .badName),
    (9, Array("a/b".utf8), .badName),
    (9, Array("a\u{0}b".utf8), .badName),
    (9, Array("a\nb".utf8), .badName),
    (9, [UInt8](repeating: 0x61, count: 256), .badName),
    (9, [0xC0, 0xAF], .notText(.partialName)),
    (10, nil, .missingField(.createdAt)),
    (10, [1], .badLength(.createdAt, 1)),
    (11, [1], .badLength(.source, 1)),
    (11, digest(Array("/a/b".utf8)), .badSource),
  ]

  @Test(arguments: forgeries) func forgeriesAreRefused(_ row: (UInt8, [UInt8]?, ResumeRecordError)) throws {
    var fields = RecordFields(try Self.record().encoded())
    fields.set(row.0, row.1)
    #expect(throws: row.2) { try ResumeRecord(decoding: fields.sealed) }
  }

  @Test func framesAreRefused() throws {
    let bytes = try Self.record().encoded()
    var fields = RecordFields(bytes)
    #expect(fields.sealed == bytes)
    fields.list.append((12, [1]))
    #expect(throws: ResumeRecordError.unknownField(12, at: bytes.count - 8)) {
      try ResumeRecord(decoding: fields.sealed)
    }
    fields = RecordFields(bytes)
    fields.list.swapAt(0, 1)
    #expect(throws: ResumeRecordError.self) { try ResumeRecord(decoding: fields.sealed) }
    fields = RecordFields(bytes)
    fields.list.insert(fields.list[0], at: 1)
    #expect(throws: ResumeRecordError.self) { try ResumeRecord(decoding: fields.sealed) }
    fields = RecordFields(bytes)
    fields.header[8] = 2
    #expect(throws: ResumeRecordError.unsupportedVersion(2)) { try ResumeRecord(decoding: fields.sealed) }
    fields = RecordFields(bytes)
    fields.header[9] = 1
    #expect(throws: ResumeRecordError.unsupportedCoding(1)) { try ResumeRecord(decoding: fields.sealed) }
  }

  @Test func refusesWhatMakesNoSense() throws {
    #expect(throws: ResumeRecordError.badOffset(0)) { try Self.record(offset: 0) }
    #expect(throws: ResumeRecordError.badTotal(69_999)) { try Self.record(total: 69_999) }
    #expect(throws: ResumeRecordError.badName) { try Self.record(name: "a/b") }
    #expect(throws: ResumeRecordError.self) {
      try Self.record(
        url: "http://a/" + String(repeating: "x", count: 65_000), tag: "\"" + String(repeating: "y", count: 4000) + "\""
      )
      .encoded()
    }
  }

  /// FIPS 180-4's examples, and lengths around the padding.
  @Test func hashVectors() {
    let vectors: [(String, String)] = [
      ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      (
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
      ),
      (String(repeating: "a", count: 55), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"),
      (String(repeating: "a", count: 64), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
      (String(repeating: "a", count: 100_000), "6d1cf22d7cc09b085dfc25ee1a1f3ae0265804c607bc2074ad253bcc82fd81ee"),
    ]
    for (text, expected) in vectors {
      let hex = digest(Array(text.utf8)).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
      #expect(hex.joined() == expected)
    }
  }
}

private func digest(_ bytes: [UInt8]) -> [UInt8] { ResumeHash.digest(bytes.span) }

/// A record taken apart by other code than the one under test.
private struct RecordFields {
  var header: [UInt8]
  var list: [(UInt8, [UInt8])] = []

  init(_ bytes: [UInt8]) {
    header = Array(bytes.prefix(10))
    var index = 10
    while index < bytes.count - 8 {
      let count = Int(bytes[index + 1]) * 256 + Int(bytes[index + 2])
      list.append((bytes[index], Array(bytes[(index + 3)..<(index + 3 + count)])))
      index += 3 + count
    }
  }

  mutating func set(_ tag: UInt8, _ value: [UInt8]?) {
    list.removeAll { $0.0 == tag }
    if let value { list.insert((tag, value), at: list.firstIndex { $0.0 > tag } ?? list.count) }
  }

  var sealed: [UInt8] {
    var bytes = header
    for (tag, value) in list { bytes += [tag, UInt8(value.count >> 8), UInt8(value.count & 255)] + value }
    return bytes + digest(bytes).prefix(8)
  }
}
