import Foundation
import Lupine
import LupineTesting
import Testing

/// The facts of `AFImageResponseSerializerTests`, and those about bodies.
@Suite struct ImageResponseSerializerTests {
  /// AFNetworking's types are acceptable, and WebP.
  @Test func acceptableTypes() {
    let types = ImageResponseSerializer().validation.acceptableContentTypes ?? []
    #expect(
      types.isSuperset(of: [
        "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
        "image/x-xbitmap", "image/x-win-bitmap", "image/webp",
      ]))
    #expect(ImageResponseSerializer().imageScale == 1)
    #expect(ImageResponseSerializer().validation.acceptableStatusCodes == Set(200...299))
  }

  /// A copy keeps types, codes and scale, also those that are not the default.
  @Test func aCopyKeepsItsSettings() {
    var serializer = ImageResponseSerializer(imageScale: 2, acceptableContentTypes: ["test/type"])
    serializer.validation.acceptableStatusCodes = [100]
    let copy = serializer
    serializer.imageScale = 3
    #expect(copy.imageScale == 2 && copy.validation.acceptableContentTypes == ["test/type"])
    #expect(copy.validation.acceptableStatusCodes == [100])
  }

  @Test func imageHasItsScale() throws {
    let data = Data(TestImage.png(40, 20))
    let image = try ImageResponseSerializer(imageScale: 2).serialize(nil, data: data)
    #expect(image.scale == 2 && image.width == 20 && image.height == 10 && image.pixelWidth == 40)
    #expect(image.memoryCost == 3200 && image.data == data && "\(image)".hasPrefix("png 40×20"))
    #expect(try EncodedImage(data: data, scale: 0).scale == 1)
    #expect(try EncodedImage(data: data, scale: .nan).scale == 1)
  }

  /// Empty, and not an image: errors, where AFNetworking calls it a success without an image.
  @Test(arguments: [nil, Data(), Data("<html>".utf8), Data(TestImage.png(3, 2).prefix(20))])
  func whatIsNoImageIsAnError(_ data: Data?) {
    let error = #expect(throws: SerializationError.self) { try ImageResponseSerializer().serialize(nil, data: data) }
    #expect(error?.code == .cannotParseResponse && error?.underlying != nil)
  }

  /// What the server calls it must be acceptable, whatever the bytes are; the image can be had from the error.
  @Test func typeAndBytesBothCount() async throws {
    let transport = CannedTransport([
      .init(nil, "/text", CannedReply(fields: ["Content-Type": "text/plain"], body: TestImage.png(3, 2))),
      .init(nil, "/gif", CannedReply(fields: ["Content-Type": "image/gif"], body: TestImage.png(3, 2))),
      .init(nil, "/jpg", CannedReply(fields: ["Content-Type": "image/jpg"], body: TestImage.png(3, 2))),
      .init(nil, "/file", CannedReply(fields: ["Content-Type": "application/octet-stream"], body: TestImage.png(3, 2))),
      .init(nil, "/object", CannedReply(fields: ["Content-Type": "binary/octet-stream"], body: TestImage.png(3, 2))),
      .init(nil, "/untyped", CannedReply(body: TestImage.png(3, 2))),
      .init(
        nil, "/page", CannedReply(fields: ["Content-Type": "application/octet-stream"], body: Array("<html>".utf8))),
      .init(nil, "/malformed", CannedReply(fields: ["Content-Type": "image"], body: TestImage.png(3, 2))),
      .init(
        nil, "/missing", CannedReply(status: 404, fields: ["Content-Type": "image/png"], body: TestImage.png(3, 2))),
    ])
    var configuration = SessionConfiguration()
    configuration.transport = transport
    let session = try Session(configuration)
    let serializer = ImageResponseSerializer()
    func serialize(_ path: String) async throws -> EncodedImage {
      let (data, response) = try await session.data(from: "http://test\(path)")
      return try serializer.serialize(response, data: data)
    }
    let refused = await #expect(throws: SerializationError.self) { try await serialize("/text") }
    #expect(refused?.code == .unacceptableContentType && (refused?.value as? EncodedImage)?.pixelWidth == 3)
    let missing = await #expect(throws: SerializationError.self) { try await serialize("/missing") }
    #expect(missing?.code == .unacceptableStatusCode && (missing?.value as? EncodedImage)?.pixelHeight == 2)
    // Another image than it is called is one all the same, and one that a store of files has no name for.
    for path in ["/gif", "/jpg", "/file", "/object", "/untyped"] {
      #expect(try await serialize(path).format == .png, "\(path)")
    }
    let page = await #expect(throws: SerializationError.self) { try await serialize("/page") }
    #expect(page?.code == .cannotParseResponse)
    let malformed = await #expect(throws: SerializationError.self) { try await serialize("/malformed") }
    #expect(malformed?.code == .unacceptableContentType)
  }
}
