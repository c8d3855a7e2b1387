import Foundation
import HTTPTypes
import Lupine
import LupineBase
import Testing

/// The facts of AFJSONRequestSerializationTests.
@Suite struct JSONRequestSerializationTests {
  private static let url = "http://example.com/"

  private func body(_ parameters: any Sendable, _ options: JSONValue.WritingOptions = []) throws -> String {
    let request = try JSONRequestSerializer(writingOptions: options).request(
      method: "POST", url: Self.url, parameters: parameters)
    #expect(request.fields[.contentType] == "application/json")
    return try #require(request.body.text)
  }

  /// A dictionary.
  @Test func testThatJSONRequestSerializationHandlesParametersDictionary() throws {
    #expect(try body(["key": "value"]) == #"{"key":"value"}"#)
  }

  /// An array of dictionaries.
  @Test func testThatJSONRequestSerializationHandlesParametersArray() throws {
    #expect(try body([["key": "value"]]) == #"[{"key":"value"}]"#)
  }

  /// What no JSON text can hold is an error. AFNetworking's example is a string with half a surrogate pair, which a string of Swift cannot have: it is
  /// replaced where the string is made, and what is sent is UTF-8.
  @Test func testThatJSONRequestSerializationHandlesInvalidParameters() throws {
    #expect(throws: SerializationError.self) { try body(["key": Double.nan]) }
    let half = String(decoding: [0xD800] as [UInt16], as: UTF16.self)
    #expect(half == "\u{FFFD}")
    #expect(try body(["key": half]) == "{\"key\":\"\u{FFFD}\"}")
    #expect(try queryString(from: ["key": half]) == "key=%EF%BF%BD")
  }

  /// A set has no form in JSON: the error says so, and which argument is meant.
  @Test func testThatJSONRequestSerializationErrorsWithInvalidJSON() throws {
    let error = #expect(throws: SerializationError.self) {
      try body(["key": Set(["value"])] as [String: any Sendable])
    }
    #expect(error?.code == .requestSerializationFailed)
    #expect(error?.message.hasPrefix("The `parameters` argument is not valid JSON") == true)
  }

  private struct Point: Encodable, Sendable { var x = 1, label = "a/b" }
  private struct Price: Encodable, Sendable { var amount = Decimal(string: "0.12345678901234567891") }
  private enum Colour: String, Encodable, Sendable { case red = "r" }

  static let valid: [(any Sendable, String)] = [
    ([String: Int](), "{}"), ([Int](), "[]"),
    ([1, 2.5, true, "a", Int?.none] as [any Sendable], #"[1,2.5,true,"a",null]"#),
    ([NSNull(), NSNumber(value: true), NSNumber(value: 1)] as [any Sendable], "[null,true,1]"),
    (["a": ["b": [1.0]]], #"{"a":{"b":[1]}}"#), (["b": 1, "a": 2, "C": 3], #"{"C":3,"a":2,"b":1}"#),
    (JSONValue.array([.null, "x"]), #"[null,"x"]"#), (Point(), #"{"label":"a\/b","x":1}"#),
    (["p": Point()], #"{"p":{"label":"a\/b","x":1}}"#), ([Colour.red], #"["r"]"#),
    (["a\"\\\n\r\t\u{1}\u{7F}é"], "[\"a\\\"\\\\\\n\\r\\t\\u0001\u{7F}é\"]"), (["/"], #"["\/"]"#),
    ([UInt64.max, 1e300] as [any Sendable], "[18446744073709551615,1e+300]"), (["a": "b".prefix(1)], #"{"a":"b"}"#),
    // No digit of a number is lost, wherever it stands.
    (Price(), #"{"amount":0.12345678901234567891}"#), ([Price()], #"[{"amount":0.12345678901234567891}]"#),
    (["p": Price()], #"{"p":{"amount":0.12345678901234567891}}"#),
    ([Decimal(string: "0.12345678901234567891")], "[0.12345678901234567891]"),
    (
      [
        NSDecimalNumber(string: "12345678901234567890123.5"), NSDecimalNumber(string: "2"), NSNumber(value: Float(0.1)),
      ],
      "[12345678901234567890123.5,2,0.1]"
    ), (JSONValue.array([.number(2), .number(-0.0), .number(1e22)]), "[2,-0,1e+22]"),
  ]

  @Test(arguments: valid.indices) func validParameters(_ index: Int) throws {
    #expect(try body(Self.valid[index].0, .sortedKeys) == Self.valid[index].1)
  }

  static let invalid: [any Sendable] = [
    "text", 1, true, NSNull(), JSONValue.string("a"), [Date()], ["a": Data()], [1: "a"], Set([1]),
    [Double.infinity], [Decimal.nan], JSONValue.array([.number(.nan)]), Decimal(1),
    [URLComponents.self] as [any Sendable],
  ]

  @Test(arguments: invalid.indices) func invalidParameters(_ index: Int) {
    let error = #expect(throws: SerializationError.self) { try body(Self.invalid[index]) }
    #expect(error?.code == .requestSerializationFailed)
  }

  /// Nested deeper than the limit, as Swift's arrays and as a value.
  @Test func nestingIsLimited() throws {
    var list: any Sendable = 1
    var value = JSONValue.integer(1)
    for _ in 0..<JSONValue.maximumDepth {
      list = [list]
      value = .array([value])
    }
    #expect(try body(list) == body(value))
    let (deepList, deepValue) = ([list], JSONValue.array([value]))
    #expect(throws: SerializationError.self) { try body(deepList) }
    #expect(throws: SerializationError.self) { try body(deepValue) }
  }

  @Test func writingOptions() throws {
    #expect(try body(["/"], .withoutEscapingSlashes) == #"["/"]"#)
    #expect(
      try body(
        ["a": [1, [Int]()] as [any Sendable], "b": [String: Int]()] as [String: any Sendable],
        [.prettyPrinted, .sortedKeys])
        == "{\n  \"a\": [\n    1,\n    []\n  ],\n  \"b\": {}\n}")
    #expect(try body(Point(), [.withoutEscapingSlashes, .sortedKeys]) == #"{"label":"a/b","x":1}"#)
    var serializer = JSONRequestSerializer()
    serializer.makeEncoder = {
      let encoder = JSONEncoder()
      encoder.keyEncodingStrategy = .convertToSnakeCase
      return encoder
    }
    struct Named: Encodable, Sendable { var firstName = "A" }
    #expect(
      try serializer.request(method: "POST", url: Self.url, parameters: Named()).body.text == #"{"first_name":"A"}"#)
    // The same wherever such a value stands; names of the dictionary itself are nobody's properties.
    let within: [(any Sendable, String)] = [
      ([Named(), Named()], #"[{"first_name":"A"},{"first_name":"A"}]"#),
      (["firstUser": Named()], #"{"firstUser":{"first_name":"A"}}"#),
      (["a": [1, [Named()]] as [any Sendable]], #"{"a":[1,[{"first_name":"A"}]]}"#),
    ]
    for (parameters, text) in within {
      #expect(try serializer.request(method: "POST", url: Self.url, parameters: parameters).body.text == text)
    }
  }

  /// An encoder is made when one is needed, and once.
  @Test func encodersAreMadeOnce() throws {
    struct Named: Encodable, Sendable { var name = "A" }
    let made = Locked(0)
    var serializer = JSONRequestSerializer()
    serializer.makeEncoder = {
      made.withLock { $0 += 1 }
      return JSONEncoder()
    }
    _ = try serializer.request(method: "POST", url: Self.url, parameters: ["a": [1, 2]])
    #expect(made.withLock { $0 } == 0)
    _ = try serializer.request(method: "POST", url: Self.url, parameters: [Named](repeating: Named(), count: 100))
    #expect(made.withLock { $0 } == 1)
  }

  /// Methods without a body have a query; no parameters, no body and no type; a type of the request's own stays.
  @Test func theRestIsAsWithForms() throws {
    var serializer = JSONRequestSerializer()
    serializer.base.setValue("x", forHeader: "X-A")
    serializer.base.timeoutInterval = .seconds(2)
    let get = try serializer.request(method: "GET", url: Self.url, parameters: ["a": [1]])
    #expect(get.urlString == "http://example.com/?a%5B%5D=1" && get.fields[.contentType] == nil)
    let empty = try serializer.request(method: "POST", url: Self.url)
    #expect(empty.fields[.contentType] == nil && empty.body.text == nil && empty.timeoutInterval == .seconds(2))
    #expect(empty.fields.contains { $0.name.canonicalName == "x-a" })
    let own = try Request(Self.url, method: .post, fields: [.contentType: "application/vnd.api+json"])
    #expect(
      try serializer.serialize(own, parameters: ["a": 1]).fields[values: .contentType] == ["application/vnd.api+json"])
  }
}

/// The facts of AFJSONResponseSerializationTests.
@Suite struct JSONResponseSerializationTests {
  private let serializer = JSONResponseSerializer()

  private func value(_ text: String, _ status: Int = 200, _ type: String? = "application/json") throws -> JSONValue? {
    try serializer.serialize(try Responses.response(status, type: type), data: Data(text.utf8))
  }

  private func failure(_ text: String, _ status: Int = 200, _ type: String? = "application/json") -> SerializationError?
  {
    #expect(throws: SerializationError.self) { try value(text, status, type) }
  }

  @Test(
    arguments: [
      "application/json", "text/json", "text/javascript", "Application/JSON; charset=utf-8", "application/vnd.api+json",
    ]
  )
  func testThatJSONResponseSerializerAcceptsJSONMimeTypes(type: String) throws {
    #expect(try value("{}", 200, type) == [:])
  }

  @Test(arguments: ["nonstandard/json", "text/html", nil])
  func testThatJSONResponseSerializerDoesNotAcceptNonStandardJSONMimeType(type: String?) throws {
    let error = try #require(failure("{}", 200, type))
    #expect(error.code == .unacceptableContentType && error.value == nil)
    #expect(
      error.message == "Request failed: unacceptable content-type: \(type ?? "none")"
        + " (acceptable: application/json, text/javascript, text/json)")
  }

  @Test func testThatJSONResponseSerializerReturnsDictionaryForValidJSONDictionary() throws {
    #expect(try value(#"{"key":"value"}"#) == ["key": "value"])
    #expect(
      try value(#" [1, -0, 1.5, 1e2, true, null, "a\u00e9\ud83d\ude00", {"a": []}] "#)
        == [1, .number(-0.0), 1.5, .number(100), true, .null, "aé😀", ["a": []]])
  }

  /// As `NSNumber` does, a value keeps every digit of integers up to the largest of 64 bits without a sign, read, written, encoded and decoded; beyond,
  /// and with a fraction or an exponent, it is a `Double`.
  @Test func integersOf64BitsAreExact() throws {
    let text = "[9223372036854775807,9223372036854775808,18446744073709551615,-9223372036854775808]"
    let list = try #require(try value(text))
    #expect(list == [.integer(.max), .unsigned(1 << 63), .unsigned(.max), .integer(.min)])
    #expect(try String(decoding: list.data(), as: UTF8.self) == text)
    #expect(try JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(list)) == list)
    #expect(try JSONValue([UInt64.max] as [UInt64]) == [.unsigned(.max)])
    #expect(try JSONValue([NSNumber(value: UInt64.max)]) == [.unsigned(.max)])
    let refused = #expect(throws: SerializationError.self) { try JSONValue(["x": JSONValue.number(.nan)]) }
    #expect(refused?.code == .requestSerializationFailed)
    let numbers = try #require(list.foundationObject as? [NSNumber])
    #expect(numbers.map(\.uint64Value)[1...2] == [1 << 63, .max])
    #expect(list[2]?.unsignedValue == .max && list[2]?.intValue == nil && list[2]?.doubleValue == 0x1p64)
    #expect(list[0]?.unsignedValue == UInt64(Int64.max) && list[3]?.unsignedValue == nil)
    #expect(JSONValue.number(3).unsignedValue == 3 && JSONValue.number(0x1p64).unsignedValue == nil)
    #expect(
      try value("[18446744073709551616, 1e19, -9223372036854775809]")
        == [.number(0x1p64), .number(1e19), .number(-0x1p63)])
  }

  @Test(
    arguments: [
      "{invalid}", "{", "[1,]", "[01]", "[1] x", "nul", "[\"\n\"]", "[NaN]", "\u{0}", "[1e999]", "{\"a\":1,}", "<html>",
      "'a'",
    ]
  )
  func testThatJSONResponseSerializerReturnsErrorForInvalidJSON(text: String) throws {
    let error = try #require(failure(text))
    #expect(error.code == .cannotParseResponse && error.data == Data(text.utf8) && error.response?.statusCode == 200)
  }

  @Test func bytesThatAreNoTextAreAnError() {
    #expect(throws: SerializationError.self) {
      try serializer.serialize(nil, data: Data([0x5B, 0x22, 0xFF, 0x22, 0x5D]))
    }
    #expect(throws: SerializationError.self) { try serializer.serialize(nil, data: Data([0xFE, 0xFF, 0xD8, 0x00])) }
  }

  /// Whatever is empty or white space is nil, without an error.
  @Test(arguments: ["", " ", "  ", "\r\n\t"])
  func testThatJSONResponseSerializerReturnsNilObjectAndNilErrorForEmptyData(text: String) throws {
    #expect(try value(text) == nil)
    #expect(try serializer.anyValue(try Responses.response(type: "application/json"), data: Data(text.utf8)) == nil)
    #expect(try serializer.serialize(nil, data: nil) == nil)
  }

  /// The five encodings of RFC 4627, with and without a byte order mark.
  @Test(
    arguments: [
      String.Encoding.utf8, .utf16BigEndian, .utf16LittleEndian, .utf32BigEndian, .utf32LittleEndian,
    ]
  ) func encodings(encoding: String.Encoding) throws {
    for text in [#"{"ü":1}"#, "[]"] {
      let plain = try #require(text.data(using: encoding))
      let mark = try #require("\u{FEFF}".data(using: encoding))
      let expected = try JSONValue(parsing: Data(text.utf8))
      #expect(try JSONValue(parsing: plain) == expected)
      #expect(try JSONValue(parsing: mark + plain) == expected)
    }
  }

  /// A text that is neither array nor object is refused unless asked for.
  @Test(arguments: [("1", JSONValue.integer(1)), ("\"a\"", "a"), ("null", .null), ("true", true)])
  func fragments(text: String, expected: JSONValue) throws {
    #expect(failure(text)?.code == .cannotParseResponse)
    let serializer = JSONResponseSerializer(readingOptions: .fragmentsAllowed)
    #expect(try serializer.serialize(nil, data: Data(text.utf8)) == .some(expected))
  }

  /// A body that nests without end is an error, not the end of the stack.
  @Test(arguments: ["[", "{\"a\":", "[{\"a\":"]) func depthIsLimited(unit: String) throws {
    let error = try #require(failure(String(repeating: unit, count: 100_000)))
    #expect(error.code == .cannotParseResponse && error.message.contains("nesting"))
    let limit = JSONValue.maximumDepth
    let deepest = String(repeating: "[", count: limit) + String(repeating: "]", count: limit)
    #expect(try value(deepest)?.removingNulls == JSONValue(parsing: Data(deepest.utf8)))
  }

  @Test func testThatJSONRemovesKeysWithNullValues() throws {
    var serializer = serializer
    serializer.removesKeysWithNullValues = true
    let text = #"{"key":"value","nullkey":null,"array":[{"a":null,"b":1},null,[null,2]],"nulls":[null]}"#
    #expect(
      try serializer.serialize(nil, data: Data(text.utf8))
        == ["key": "value", "array": [["b": 1], [2]], "nulls": []])
    #expect(JSONValue.null.removingNulls == .null)
  }

  /// A wrong status with a body that can be read: error and value. With one that cannot: that error, and the status behind it.
  @Test func statusFailuresCarryTheBody() throws {
    let failed = try #require(failure(#"{"reason":"gone"}"#, 404))
    #expect(failed.code == .unacceptableStatusCode && failed.message == "Request failed: not found (404)")
    #expect(failed.value as? JSONValue == ["reason": "gone"])
    #expect(failed.data == Data(#"{"reason":"gone"}"#.utf8) && failed.response?.statusCode == 404)
    #expect(failed.failingURL == "http://localhost/test")
    let malformed = try #require(failure("<html>", 500))
    #expect(malformed.code == .cannotParseResponse && malformed.contains(.unacceptableStatusCode))
    #expect(malformed.response?.statusCode == 500)
    let both = try #require(failure("<html>", 500, "text/html"))
    #expect(both.code == .unacceptableStatusCode && both.contains(.unacceptableContentType) && both.value == nil)
    let empty = try #require(failure("", 500))
    #expect(empty.code == .unacceptableStatusCode && empty.value == nil)
  }

  @Test func testThatJSONResponseSerializerCanBeCopied() throws {
    var serializer = JSONResponseSerializer(readingOptions: .fragmentsAllowed)
    serializer.acceptableStatusCodes = [100]
    serializer.acceptableContentTypes = ["test/type"]
    serializer.removesKeysWithNullValues = true
    var copy = serializer
    #expect(copy.validation == serializer.validation && copy.readingOptions == .fragmentsAllowed)
    #expect(copy.removesKeysWithNullValues)
    copy.acceptableStatusCodes = nil
    #expect(serializer.acceptableStatusCodes == [100])
  }

  @Test func valuesHaveAccessors() throws {
    var value = try JSONValue(["a": [1, 2.0, "t", true, Int?.none] as [any Sendable]] as [String: any Sendable])
    #expect(value["a"]?[0]?.intValue == 1 && value["a"]?[1]?.intValue == 2 && value["a"]?[1]?.doubleValue == 2)
    #expect(value["a"]?[2]?.stringValue == "t" && value["a"]?[3]?.boolValue == true && value["a"]?[4]?.isNull == true)
    #expect(value["b"] == nil && value[0] == nil && value["a"]?[9] == nil && value["a"]?[-1] == nil)
    #expect(value["a"]?.arrayValue?.count == 5 && value.objectValue?.count == 1 && value["a"]?[2]?.intValue == nil)
    value["b"] = 3
    value["a"] = nil
    #expect(value == ["b": 3])
    #expect(try JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(value)) == value)
    let object = try #require(value.foundationObject as? [String: Any])
    #expect(object["b"] as? Int == 3)
  }
}
