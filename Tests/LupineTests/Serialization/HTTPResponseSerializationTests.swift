import Foundation
import Lupine
import Testing

/// The facts of AFHTTPResponseSerializationTests.
@Suite struct HTTPResponseSerializationTests {
  private let serializer = HTTPResponseSerializer()
  private let data = Data("text".utf8)

  @Test(arguments: 200...299) func testThatAFHTTPResponseSerializationHandlesAll2XXCodes(status: Int) throws {
    let response = try Responses.response(status, type: "text/html")
    #expect(serializer.acceptableStatusCodes?.contains(status) == true)
    #expect(try serializer.serialize(response, data: data) == data)
  }

  @Test(arguments: [nil, Data()])
  func testThatAFHTTPResponseSerializationSucceedsWith205WithNoResponseContentTypeAndNoData(data: Data?) throws {
    var serializer = serializer
    serializer.acceptableContentTypes = ["text/html"]
    #expect(serializer.validation.validate(try Responses.response(205), data: data) == nil)
    #expect(try serializer.serialize(try Responses.response(205), data: data).isEmpty)
  }

  /// Also a type that is wrong means nothing without a body.
  @Test func typesOfNothingMeanNothing() throws {
    let validation = ResponseValidation(acceptableContentTypes: ["text/html"])
    #expect(validation.validate(try Responses.response(204, type: "text/plain"), data: nil) == nil)
    #expect(validation.validate(nil, data: data) == nil)
    let bytes = ResponseValidation(acceptableContentTypes: ["application/octet-stream"])
    #expect(bytes.validate(try Responses.response(), data: data) == nil)
    #expect(bytes.validate(try Responses.response(type: "nonsense"), data: data) != nil)
  }

  @Test func testThatAFHTTPResponseSerializationFailsWith205WithNoResponseContentTypeAndResponseData() throws {
    var serializer = serializer
    serializer.acceptableContentTypes = ["text/html"]
    let error = #expect(throws: SerializationError.self) {
      try serializer.serialize(try Responses.response(205), data: data)
    }
    #expect(error?.code == .unacceptableContentType && error?.value as? Data == data)
  }

  @Test(arguments: 400...599) func testThatAFHTTPResponseSerializationFailsAll4XX5XXStatusCodes(status: Int) throws {
    #expect(serializer.acceptableStatusCodes?.contains(status) == false)
    let error = #expect(throws: SerializationError.self) {
      try serializer.serialize(try Responses.response(status, type: "text/html"), data: data)
    }
    #expect(error?.code == .unacceptableStatusCode && error?.message.hasSuffix(" (\(status))") == true)
    #expect(error?.data == data && error?.response?.statusCode == status && error?.value as? Data == data)
  }

  @Test func testResponseIsValidated() throws {
    let validation = ResponseValidation(acceptableContentTypes: ["text/html", "text/plain"])
    #expect(validation.validate(try Responses.response(type: "text/html"), data: data) == nil)
    #expect(validation.validate(try Responses.response(type: "TEXT/HTML; charset=x"), data: data) == nil)
    let any = ResponseValidation(acceptableStatusCodes: nil)
    #expect(any.validate(try Responses.response(599), data: data) == nil)
    let none = ResponseValidation(acceptableStatusCodes: [], acceptableContentTypes: [])
    let error = none.validate(try Responses.response(200, type: "a/b"), data: data)
    #expect(error?.code == .unacceptableStatusCode && error?.message == "Request failed: no error (200)")
    let behind = error?.underlying as? SerializationError
    #expect(behind?.code == .unacceptableContentType && behind?.message.contains("a/b") == true)
  }

  /// A type that is no type is shown as none; what a peer sends is never printed as it came.
  @Test func malformedTypesAreNone() throws {
    let validation = ResponseValidation(acceptableContentTypes: ["text/html"])
    let error = validation.validate(try Responses.response(type: "nonsense"), data: data)
    #expect(error?.message == "Request failed: unacceptable content-type: none (acceptable: text/html)")
  }

  @Test func testCanBeCopied() {
    var copy = serializer
    copy.acceptableStatusCodes = [1]
    #expect(serializer.acceptableStatusCodes?.count == 100 && serializer.acceptableContentTypes == nil)
  }
}

/// What errors have to say, decoded.
@Suite struct ErrorBodyTests {
  struct Problem: Decodable, Equatable { var title: String }

  private func error(_ body: String?, type: String = "text/html") throws -> SerializationError {
    SerializationError(
      .unacceptableStatusCode, message: "422", response: try Responses.response(422, type: type),
      data: body.map { Data($0.utf8) })
  }

  /// The media type does not matter, and the decoder is the caller's.
  @Test func bodiesAreDecoded() throws {
    #expect(try error(#"{"title":"a"}"#).body(as: Problem.self) == Problem(title: "a"))
    let problem: Problem = try error(#"{"title":"a"}"#, type: "application/problem+json").body()
    #expect(problem == Problem(title: "a"))
    struct Named: Decodable { var firstName: String }
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    #expect(try error(#"{"first_name":"A"}"#).body(as: Named.self, decoder: decoder).firstName == "A")
  }

  @Test(arguments: [nil, "", " \n"]) func nothingIsNoBody(_ body: String?) throws {
    let error = try error(body)
    let refusal = #expect(throws: SerializationError.self) { try error.body(as: Problem.self) }
    #expect(refusal?.code == .cannotParseResponse && refusal?.response?.statusCode == 422)
    #expect(refusal?.failingURL == "http://localhost/test")
    #expect((refusal?.underlying as? SerializationError)?.code == .unacceptableStatusCode)
    // Also where an optional is asked for: nothing said is not the same as `null`.
    #expect(throws: SerializationError.self) { try error.body(as: Problem?.self) }
  }

  @Test func whatIsSomethingElseIsAnError() throws {
    for text in ["<html>", #"{"titel":"a"}"#, "[]"] {
      let refusal = #expect(throws: SerializationError.self) { try self.error(text).body(as: Problem.self) }
      #expect(refusal?.code == .cannotParseResponse && refusal?.underlying is DecodingError)
      #expect(refusal?.data == Data(text.utf8))
    }
    let marks = #"{"title":"a\#(String(repeating: "\u{301}", count: 300))"}"#
    let refusal = #expect(throws: SerializationError.self) { try self.error(marks).body(as: Problem.self) }
    #expect(refusal?.code == .cannotParseResponse)
  }
}

@Suite struct DecodableResponseSerializerTests {
  struct Person: Decodable, Sendable, Equatable { var firstName: String }

  private func serialize<Value: Sendable & Decodable>(
    _ serializer: DecodableResponseSerializer<Value>, _ text: String, _ status: Int = 200
  ) throws -> Value {
    try serializer.serialize(try Responses.response(status, type: "application/json"), data: Data(text.utf8))
  }

  @Test func valuesAreDecodedAsTheDecoderIsConfigured() throws {
    let serializer = DecodableResponseSerializer(Person.self) { $0.keyDecodingStrategy = .convertFromSnakeCase }
    #expect(try serialize(serializer, #"{"first_name":"A"}"#) == Person(firstName: "A"))
  }

  @Test func emptyBodies() throws {
    #expect(try serialize(DecodableResponseSerializer(Person?.self), " ") == nil)
    #expect(try serialize(DecodableResponseSerializer(EmptyResponse.self), "") == EmptyResponse())
    #expect(try serialize(DecodableResponseSerializer(EmptyResponse.self), #"{"a":1}"#) == EmptyResponse())
    #expect(try DecodableResponseSerializer(Person?.self).anyValue(nil, data: nil) == nil)
    let error = #expect(throws: SerializationError.self) { try serialize(DecodableResponseSerializer(Person.self), "") }
    #expect(error?.code == .cannotParseResponse)
  }

  @Test func errorsSayWhatIsWrong() throws {
    let serializer = DecodableResponseSerializer(Person.self)
    let mismatch = #expect(throws: SerializationError.self) { try serialize(serializer, #"{"a":1}"#) }
    #expect(mismatch?.code == .cannotParseResponse && mismatch?.underlying is DecodingError)
    let page = #expect(throws: SerializationError.self) { try serialize(serializer, #"{"error":"x"}"#, 400) }
    #expect(page?.code == .unacceptableStatusCode && page?.value as? JSONValue == ["error": "x"])
    let person = #expect(throws: SerializationError.self) { try serialize(serializer, #"{"firstName":"x"}"#, 400) }
    #expect(person?.value as? Person == Person(firstName: "x"))
  }

  /// What nests without end is an error, not the end of the stack; nothing to who does not look at it.
  @Test func depthIsLimited() throws {
    let bomb = String(repeating: "[", count: 100_000)
    #expect(throws: SerializationError.self) { try serialize(DecodableResponseSerializer(JSONValue.self), bomb) }
    #expect(try serialize(DecodableResponseSerializer(EmptyResponse.self), bomb) == EmptyResponse())
  }
}

@Suite struct StringResponseSerializerTests {
  /// A byte order mark is more precise than what a server says of all its files, and is no part of the text (WHATWG Encoding section 6).
  @Test(
    arguments: [
      ([0xEF, 0xBB, 0xBF], .utf8, "; charset=iso-8859-1"), ([0xFE, 0xFF], .utf16BigEndian, ""),
      ([0xFF, 0xFE], .utf16LittleEndian, ""), ([0xFF, 0xFE], .utf16LittleEndian, "; charset=utf-16be"),
      ([0xFF, 0xFE], .utf16LittleEndian, "; charset=utf-16le"), ([0xFE, 0xFF], .utf16BigEndian, "; charset=utf-16"),
      ([0xFF, 0xFE, 0, 0], .utf32LittleEndian, ""), ([0, 0, 0xFE, 0xFF], .utf32BigEndian, "; charset=utf-32"),
    ] as [([UInt8], String.Encoding, String)])
  func byteOrderMarksDecide(_ mark: [UInt8], _ encoding: String.Encoding, _ parameter: String) throws {
    let response = try Responses.response(type: "text/plain\(parameter)")
    let data = Data(mark) + (try #require("é€".data(using: encoding)))
    #expect(Array(try StringResponseSerializer().serialize(response, data: data).utf8) == Array("é€".utf8))
    #expect(try StringResponseSerializer().serialize(response, data: Data(mark)).isEmpty)
  }

  /// Who says the encoding has it, with its own mark left out.
  @Test func namedEncodingsAreNotGuessed() throws {
    let marked = Data([0xFF, 0xFE, 0x61, 0])
    let named = StringResponseSerializer(encoding: .utf16LittleEndian)
    #expect(Array(try named.serialize(nil, data: marked).utf8) == [0x61])
    let latin = StringResponseSerializer(encoding: .isoLatin1)
    #expect(try latin.serialize(nil, data: marked) == "ÿþa\0")
    #expect(try latin.serialize(nil, data: Data([0xEF, 0xBB, 0xBF])) == "ï»¿")
  }

  static let texts: [(type: String?, bytes: [UInt8], text: String?)] = [
    (nil, Array("é".utf8), "é"), ("text/plain; charset=utf-8", [0xEF, 0xBB, 0xBF, 0x61], "a"),
    ("text/plain; charset=ISO-8859-1", [0xE9], "é"), ("text/plain; charset=\"windows-1252\"", [0x80], "€"),
    ("text/plain; charset=Shift_JIS", [0x82, 0xA0], "あ"), ("text/plain; charset=utf-16le", [0x61, 0], "a"),
    ("text/plain; charset=nonsense", Array("é".utf8), "é"), ("text/plain", [0xFF], nil), ("text/plain", [], ""),
  ]

  @Test(arguments: texts) func textsOfCharsets(type: String?, bytes: [UInt8], text: String?) throws {
    let response = try Responses.response(type: type)
    let serializer = StringResponseSerializer()
    if let text {
      #expect(try serializer.serialize(response, data: Data(bytes)) == text)
    } else {
      let error = #expect(throws: SerializationError.self) { try serializer.serialize(response, data: Data(bytes)) }
      #expect(error?.code == .cannotParseResponse)
    }
  }

  @Test func anEncodingMayBeGiven() throws {
    let response = try Responses.response(type: "text/plain; charset=utf-8")
    #expect(try StringResponseSerializer(encoding: .isoLatin1).serialize(response, data: Data([0xE9])) == "é")
    let error = #expect(throws: SerializationError.self) {
      try StringResponseSerializer().serialize(try Responses.response(404), data: Data("gone".utf8))
    }
    #expect(error?.value as? String == "gone")
  }
}

/// The facts of AFCompoundResponseSerializerTests.
@Suite struct CompoundResponseSerializerTests {
  private let json = Data(#"{"key":"value"}"#.utf8)

  @Test func testCompoundSerializerProperlySerializesResponse() throws {
    let compound = CompoundResponseSerializer([PropertyListResponseSerializer(), JSONResponseSerializer()])
    let value = try compound.serialize(try Responses.response(type: "application/json"), data: json)
    #expect(value as? JSONValue == ["key": "value"])
  }

  /// The image's serializer refuses JSON, so that the next one is asked; an image is the first one's.
  @Test func testCompoundSerializerOfImageAndJSON() throws {
    let compound = CompoundResponseSerializer([ImageResponseSerializer(), JSONResponseSerializer()])
    let value = try compound.serialize(try Responses.response(type: "application/json"), data: json)
    #expect(value as? JSONValue == ["key": "value"])
    let png = Data(TestImage.png(3, 2))
    let image = try compound.serialize(try Responses.response(type: "image/png"), data: png)
    #expect((image as? EncodedImage)?.pixelWidth == 3)
  }

  /// An image that the server calls something else is not the first one's: the next takes it, whatever it is.
  @Test func aValueOfAnotherTypeIsLeftToTheNext() throws {
    let png = Data(TestImage.png(3, 2))
    let compound = CompoundResponseSerializer([ImageResponseSerializer(), HTTPResponseSerializer()])
    let value = try compound.serialize(try Responses.response(200, type: "application/x-archive"), data: png)
    #expect(value as? Data == png)
  }

  /// The error of the first that has a value; nobody's value: the body, validated by the compound's own rules.
  @Test func errorsAndFallbacks() throws {
    let compound = CompoundResponseSerializer([PropertyListResponseSerializer(), JSONResponseSerializer()])
    let failed = #expect(throws: SerializationError.self) {
      try compound.serialize(try Responses.response(400, type: "application/json"), data: json)
    }
    #expect(failed?.code == .unacceptableStatusCode && failed?.value as? JSONValue == ["key": "value"])
    let html = try compound.serialize(try Responses.response(type: "text/html"), data: json)
    #expect(html as? Data == json)
    let page = #expect(throws: SerializationError.self) {
      try compound.serialize(try Responses.response(500, type: "text/html"), data: json)
    }
    #expect(page?.code == .unacceptableStatusCode && page?.value as? Data == json)
    let empty = try compound.serialize(try Responses.response(204), data: nil)
    #expect(empty as? Data == Data())
    var typed = compound
    typed.acceptableContentTypes = ["text/plain"]
    #expect(throws: SerializationError.self) { try typed.serialize(try Responses.response(type: "a/b"), data: json) }
  }

  /// An optional that is nil is no value of an error page: the error carries none, and the next is asked.
  @Test(arguments: ["", " ", "null"]) func nothingIsNoValueOfAnError(_ text: String) throws {
    let body = Data(text.utf8)
    let response = try Responses.response(404, type: "application/json")
    let decoding = DecodableResponseSerializer<[String: Int]?>()
    let failed = #expect(throws: SerializationError.self) { try decoding.serialize(response, data: body) }
    #expect(failed?.code == .unacceptableStatusCode && failed?.value == nil)
    let shared = #expect(throws: SerializationError.self) {
      try ResponseValidation().serialize(response, body) { _ in Int?.none }
    }
    #expect(shared?.code == .unacceptableStatusCode && shared?.value == nil)
    let page = #expect(throws: SerializationError.self) {
      try CompoundResponseSerializer([decoding, HTTPResponseSerializer()]).serialize(response, data: body)
    }
    #expect(page?.code == .unacceptableStatusCode && page?.value as? Data == body)
  }

  @Test func testCompoundSerializerCanBeCopied() {
    let compound = CompoundResponseSerializer([PropertyListResponseSerializer(), JSONResponseSerializer()])
    var copy = compound
    copy.responseSerializers.removeLast()
    copy.acceptableStatusCodes = [1]
    #expect(compound.responseSerializers.count == 2 && compound.responseSerializers.last is JSONResponseSerializer)
    #expect(compound.acceptableStatusCodes?.count == 100)
  }
}
