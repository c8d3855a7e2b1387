import Foundation
import FoundationXML
import LupineXML
import Testing

/// The facts of AFNetworking's test cases about copying and archiving of XML serializers.
@Suite struct XMLArchiveTests {
  private func archived<Value: Codable>(_ value: Value, _ types: SerializerTypes? = nil) throws -> Value {
    let decoder = JSONDecoder()
    if let types { decoder.userInfo[SerializerTypes.key] = types }
    return try decoder.decode(Value.self, from: JSONEncoder().encode(value))
  }

  @Test func testThatXMLParserResponseSerializerCanBeArchived() throws {
    var serializer = XMLParserResponseSerializer()
    serializer.acceptableStatusCodes = [100]
    #expect(try archived(serializer).validation == serializer.validation)
  }

  @Test func testThatXMLDocumentResponseSerializerCanBeArchived() throws {
    var serializer = XMLDocumentResponseSerializer(options: .nodePreserveWhitespace)
    serializer.acceptableContentTypes = ["test/type"]
    let unarchived = try archived(serializer)
    #expect(unarchived.options == .nodePreserveWhitespace && unarchived.validation == serializer.validation)
  }

  @Test func testThatXMLDocumentResponseSerializerCanBeCopied() {
    var serializer = XMLDocumentResponseSerializer(options: .nodePreserveWhitespace)
    let copy = serializer
    serializer.options = []
    #expect(copy.options == .nodePreserveWhitespace && copy.validation == serializer.validation)
  }

  /// As members of a compound they are read by a decoder that is told of them: this module is not always there.
  @Test func membersOfACompound() throws {
    let compound = CompoundResponseSerializer([XMLParserResponseSerializer(), JSONResponseSerializer()])
    let types = SerializerTypes([XMLParserResponseSerializer.self])
    let unarchived = try archived(compound, types)
    #expect(unarchived.responseSerializers.first is XMLParserResponseSerializer)
    #expect(throws: DecodingError.self) { try archived(compound) }
  }
}
