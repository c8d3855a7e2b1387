import Foundation
import Lupine
import LupineTesting
import Testing

/// Names in bodies that would take minutes to look for are refused, however they are written.
@Suite struct CombiningMarkTests {
  /// In no order, so that they have to be sorted.
  private static func marks(_ count: Int) -> String { String(repeating: "\u{301}\u{323}", count: count / 2) }

  private static func repeated(_ text: String, _ count: Int = 300) -> String { String(repeating: text, count: count) }

  private func expectRefusal(
    sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> some Sendable
  ) {
    let error = #expect(throws: SerializationError.self, sourceLocation: sourceLocation) { try body() }
    #expect(error?.code == .cannotParseResponse, sourceLocation: sourceLocation)
  }

  @Test func namesInJSON() throws {
    let name = "a" + Self.marks(256)
    #expect(try JSONValue(parsing: Data(#"{"\#(name)": 1}"#.utf8)) == [name: 1])
    let text = "a" + Self.marks(1000)
    #expect(try JSONValue(parsing: Data(#"["\#(text)"]"#.utf8))[0]?.stringValue == text)
    expectRefusal { try JSONValue(parsing: Data(#"{"\#(text)": 1}"#.utf8)) }
    expectRefusal { try JSONValue(parsing: Data(#"{"a\#(Self.repeated(#"\u0301\u0323"#))": 1}"#.utf8)) }
    expectRefusal {
      try JSONValue(parsing: try #require(#"{"\#(text)": 1}"#.data(using: .utf16LittleEndian)))
    }
  }

  @Test func namesInDecodedJSON() throws {
    let serializer = DecodableResponseSerializer([String: Int].self)
    let name = "a" + Self.marks(256)
    #expect(try serializer.serialize(nil, data: Data(#"{"\#(name)": 1}"#.utf8)) == [name: 1])
    let long = (0..<300).map { "é\($0)\u{301}" }.joined()
    #expect(try serializer.serialize(nil, data: Data(#"{"\#(long)": 1}"#.utf8)) == [long: 1])
    let text = #"{"a\#(Self.marks(1000))": 1}"#
    expectRefusal { try serializer.serialize(nil, data: Data(text.utf8)) }
    for encoding in [String.Encoding.utf16LittleEndian, .utf16BigEndian, .utf16, .utf32LittleEndian] {
      let data = try #require(text.data(using: encoding))
      expectRefusal { try serializer.serialize(nil, data: data) }
    }
    // Beyond the first plane in two escapes; mixed with the marks themselves.
    for marks in [#"\u0301\u0323"#, #"\uD834\uDD65\u0301"#, "\\u0301\u{323}"] {
      expectRefusal { try serializer.serialize(nil, data: Data(#"{"a\#(Self.repeated(marks))": 1}"#.utf8)) }
    }
    #expect(try serializer.serialize(nil, data: Data(#"{"\#(Self.repeated(#"\\u0301"#))": 1}"#.utf8)).count == 1)
    #expect(
      try DecodableResponseSerializer(EmptyResponse.self).serialize(nil, data: Data(text.utf8)) == EmptyResponse())
  }

  /// The decoding of the `async` verbs is the same.
  @Test func namesInAwaitedJSON() async throws {
    let text = #"{"a\#(Self.marks(1000))": 1}"#
    let route = ServerRoute(nil, "/marks") { _, connection in
      try connection.respond(fields: ["Content-Type": "application/json"], text: text)
    }
    try await withManager([route]) { manager, _ in
      let error = await #expect(throws: SerializationError.self) {
        try await manager.get("marks", as: [String: Int].self)
      }
      #expect(error?.code == .cannotParseResponse)
    }
  }

  private static func list(_ key: String, _ encoding: String = "UTF-8") -> String {
    #"<?xml version="1.0" encoding="\#(encoding)"?><plist version="1.0"><dict><key>\#(key)</key><true/></dict></plist>"#
  }

  @Test func keysInPropertyLists() throws {
    let name = "a" + Self.marks(256)
    #expect(try PropertyListValue(parsing: Data(Self.list(name).utf8)) == .dictionary([name: .boolean(true)]))
    let keys = [
      "a" + Self.marks(1000), "a" + Self.repeated("&#x301;&#803;"), "a" + Self.repeated("&#x000301;\u{323}"),
      "a" + Self.repeated("<![CDATA[\u{301}]]>\u{323}"),
    ]
    for key in keys { expectRefusal { try PropertyListValue(parsing: Data(Self.list(key).utf8)) } }
    expectRefusal { try PropertyListValue(parsing: try #require(Self.list(keys[0]).data(using: .utf16))) }
    let binary = try PropertyListSerialization.data(fromPropertyList: [keys[0]: 1], format: .binary, options: 0)
    expectRefusal { try PropertyListValue(parsing: binary) }
  }

  /// An encoding of one byte for each character may have marks too.
  @Test func keysInOtherEncodings() throws {
    let parts = Self.list("|", "windows-1258").split(separator: "|")
    let marks = [UInt8](repeating: 0xEC, count: 300) + [UInt8](repeating: 0xF2, count: 300)
    expectRefusal { try PropertyListValue(parsing: Data(Array(parts[0].utf8) + marks + Array(parts[1].utf8))) }
  }
}
