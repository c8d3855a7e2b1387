import Foundation
import Testing

@testable import Lupine

/// The facts of AFPropertyListRequestSerializerTests.
@Suite struct PropertyListRequestSerializerTests {
  private func data(_ parameters: any Sendable, _ format: PropertyListSerialization.PropertyListFormat = .xml) throws
    -> Data
  {
    let request = try PropertyListRequestSerializer(format: format).request(
      method: "POST", url: "http://example.com/", parameters: parameters)
    #expect(request.fields[.contentType] == "application/x-plist")
    guard case .bytes(let bytes) = request.body else { return Data() }
    return Data(bytes)
  }

  private struct Point: Codable, Sendable, Equatable { var x = 1 }

  @Test(arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
  func testThatPropertyListRequestSerializerAcceptsPlist(format: PropertyListSerialization.PropertyListFormat) throws {
    let parameters: [String: any Sendable] = [
      "string": "a<b", "list": [1, -2, 2.5, true] as [any Sendable], "data": Data([1]),
      "date": Date(timeIntervalSinceReferenceDate: 10), "big": UInt64.max, "width": CGFloat(1.5),
    ]
    let value = try PropertyListValue(parsing: try data(parameters, format))
    #expect(
      value
        == .dictionary([
          "string": .string("a<b"), "list": .array([.integer(1), .integer(-2), .real(2.5), .boolean(true)]),
          "data": .data(Data([1])), "date": .date(Date(timeIntervalSinceReferenceDate: 10)), "big": .unsigned(.max),
          "width": .real(1.5),
        ]))
    #expect(try PropertyListDecoder().decode(Point.self, from: try data(Point(x: 3), format)) == Point(x: 3))
    let list = try data(JSONValue.array([1, "a"]), format)
    #expect(try PropertyListValue(parsing: list) == .array([.integer(1), .string("a")]))
  }

  static let invalid: [any Sendable] = [
    [42: "value"], ["a": Int?.none], [NSNull()], Set([1]), [Opaque()], JSONValue.array([.null]), [Point()],
  ]
  private struct Opaque: Sendable {}

  @Test(arguments: invalid.indices) func testThatPropertyListRequestSerializerHandlesInvalidParameters(_ index: Int) {
    let error = #expect(throws: SerializationError.self) { try data(Self.invalid[index]) }
    #expect(error?.code == .requestSerializationFailed)
  }

  /// The digits that a decimal shows, and an integer where it is one.
  @Test func decimalsKeepTheirDigits() throws {
    let texts = ["19.99", "0.57", "2", "9007199254740993", "18446744073709551615", "-0.1", "1.5e30"]
    let list = try texts.map { try #require(Decimal(string: $0)) }
    let read = try PropertyListResponseSerializer().serialize(
      try Responses.response(200, type: "application/x-plist"), data: data(["list": list]))
    let expected: [PropertyListValue] = [
      .real(19.99), .real(0.57), .integer(2), .integer(9_007_199_254_740_993), .unsigned(.max), .real(-0.1),
      .real(1.5e30),
    ]
    #expect(read?["list"] == .array(expected))
  }

  @Test func nestingIsLimited() {
    var list: any Sendable = 1
    for _ in 0...PropertyListValue.maximumDepth { list = [list] }
    #expect(throws: SerializationError.self) { try data(list) }
  }

  /// Values are as deep as they are, wherever they stand.
  @Test func nestingOfValuesIsLimited() throws {
    var value = PropertyListValue.integer(1)
    for _ in 0..<PropertyListValue.maximumDepth { value = .array([value]) }
    _ = try data(value)
    let deeper: [any Sendable] = [PropertyListValue.array([value]), [value], ["k": value] as [String: any Sendable]]
    for value in deeper { #expect(throws: SerializationError.self) { try data(value) } }
  }

  @Test func theRestIsAsWithForms() throws {
    let serializer = PropertyListRequestSerializer()
    let get = try serializer.request(method: "HEAD", url: "http://example.com/", parameters: ["a": 1])
    #expect(get.urlString == "http://example.com/?a=1")
    let empty = try serializer.request(method: "POST", url: "http://example.com/")
    #expect(empty.body.text == nil && empty.fields[.contentType] == nil)
  }
}

/// The facts of AFPropertyListResponseSerializerTests.
@Suite struct PropertyListResponseSerializerTests {
  private let serializer = PropertyListResponseSerializer()

  private func value(_ data: Data?, _ status: Int = 200) throws -> PropertyListValue? {
    try serializer.serialize(try Responses.response(status, type: "application/x-plist"), data: data)
  }

  private static func document(_ body: String) -> Data {
    Data(#"<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE plist><plist version="1.0">\#(body)</plist>"#.utf8)
  }

  @Test func testThatPropertyListResponseSerializerHandlesPlistData() throws {
    let data = Self.document("<dict><key>foo</key><string>bar</string></dict>")
    let value = try value(data)
    #expect(value == .dictionary(["foo": .string("bar")]) && value?["foo"]?.stringValue == "bar")
  }

  @Test(arguments: [
    #"{"foo":"bar"}"#, "[1]", "word", "<plist>", "bplist00", "bplist00 = ((((", "<",
    "<?xml version='1.0' encoding='utf-7'?><plist/>", "\u{FEFF}",
  ])
  func testThatPropertyListResponseSerializerHandlesInvalidPlistData(text: String) {
    let error = #expect(throws: SerializationError.self) { try value(Data(text.utf8)) }
    #expect(error?.code == .cannotParseResponse && error?.data == Data(text.utf8))
  }

  @Test(arguments: [nil, Data()]) func testThatPropertyListResponseSerializerHandles204(data: Data?) throws {
    #expect(try value(data, 204) == nil)
  }

  /// A list that nests without end is refused before the parser meets it; in the text form, which is never read; and in UTF-16.
  @Test func depthIsLimited() throws {
    let bomb = String(repeating: "<array>", count: 100_000)
    let utf16 = try #require("\u{FEFF}<plist>\(bomb)".data(using: .utf16LittleEndian))
    for data in [Self.document(bomb), Data(String(repeating: "(", count: 100_000).utf8), utf16] {
      #expect(throws: SerializationError.self) { try value(data) }
    }
    func nested(_ levels: Int) -> Data {
      Self.document(String(repeating: "<array>", count: levels) + String(repeating: "</array>", count: levels))
    }
    #expect(throws: SerializationError.self) { try value(nested(PropertyListValue.maximumDepth + 5)) }
    _ = try value(nested(PropertyListValue.maximumDepth))
  }

  /// What looks like tags in comments, CDATA sections, instructions and attributes does not count as elements.
  @Test func markupThatIsNoElementDoesNotNest() throws {
    let tags = String(repeating: "<br>", count: 200)
    for body in ["<string><![CDATA[\(tags)]]></string>", "<!--\(tags)--><string/>"] {
      #expect(throws: Never.self) { try value(Self.document(body)) }
    }
    #expect(try value(Self.document("<string><![CDATA[<br>]]></string>")) == .string("<br>"))
    let key = Data("<plist><dict><key>encoding</key><true/></dict></plist>".utf8)
    #expect(try value(key) == .dictionary(["encoding": .boolean(true)]))
  }

  /// Nor can it hide elements that do.
  @Test(arguments: [
    "<!--\(String(repeating: "</", count: 200))-->", "<?p \(String(repeating: "</", count: 200))?>", "<?p <!-- ?>",
    "</array></array></array></array></array></array>", "<!DOCTYPE plist \"<!--\">",
    "<!DOCTYPE a [<!ENTITY x \"<!--\">]>",
    "<!ELEMENT <!-- >", "<!-- > -- ->-->",
  ])
  func nothingHidesNesting(before: String) {
    let levels = PropertyListValue.maximumDepth + 5
    for tag in ["<array>", "<array a=\"</</\">"] {
      let list = String(repeating: tag, count: levels) + String(repeating: "</array>", count: levels)
      let texts = [before + "<plist>" + list + "</plist>", "<plist>" + before + list + "</plist>"]
      for text in texts {
        #expect(throws: SerializationError.self) { try PropertyListValue(parsing: Data(text.utf8)) }
      }
    }
    // Characters of UTF-16 whose bytes are "<!--".
    let hidden = "\u{FEFF}<plist><string>\u{213C}\u{2D2D}</string>" + String(repeating: "<array>", count: levels)
    let data = hidden.data(using: .utf16LittleEndian) ?? Data("<plist/>".utf8)
    #expect(throws: SerializationError.self) { try PropertyListValue(parsing: data) }
  }

  /// Binary lists whose objects contain one another, or nest deep.
  @Test func binaryListsCannotNestWithoutEnd() throws {
    func list(_ count: Int, _ child: (Int) -> Int) -> Data {
      var bytes = Array("bplist00".utf8)
      var offsets: [Int] = []
      for index in 0..<count {
        offsets.append(bytes.count)
        let next = child(index)
        bytes += [0xA1, UInt8(next >> 8 & 255), UInt8(next & 255)]
      }
      let table = bytes.count
      for offset in offsets { bytes += [UInt8(offset >> 16 & 255), UInt8(offset >> 8 & 255), UInt8(offset & 255)] }
      bytes += [0, 0, 0, 0, 0, 0, 3, 2]
      for number in [count, 0, table] { bytes += (0..<8).map { UInt8(number >> (56 - 8 * $0) & 255) } }
      return Data(bytes)
    }
    #expect(throws: SerializationError.self) { try value(list(2) { 1 - $0 }) }
    #expect(throws: SerializationError.self) { try value(list(60_000) { min($0 + 1, 59_999) }) }
  }

  @Test func statusFailuresCarryTheBody() {
    let error = #expect(throws: SerializationError.self) { try value(Self.document("<string>x</string>"), 500) }
    #expect(error?.code == .unacceptableStatusCode && error?.value as? PropertyListValue == .string("x"))
  }
}
