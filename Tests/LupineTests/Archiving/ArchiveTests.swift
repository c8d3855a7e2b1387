import Foundation
import HTTPTypes
import Lupine
import LupineTesting
import Testing

/// The facts of AFNetworking's test cases about copying and archiving, named after its tests; and what an archive refuses.
@Suite struct ArchiveTests {
  private func archived<Value: Codable>(_ value: Value, _ types: SerializerTypes? = nil) throws -> Value {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    let decoder = PropertyListDecoder()
    if let types { decoder.userInfo[SerializerTypes.key] = types }
    return try decoder.decode(Value.self, from: encoder.encode(value))
  }

  private func text(_ value: some Encodable) throws -> String {
    String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
  }

  // MARK: Request serializers

  private var requestSerializer: HTTPRequestSerializer {
    var serializer = HTTPRequestSerializer()
    serializer.setValue("v", forHeader: "X-Key")
    serializer.stringEncoding = .isoLatin1
    serializer.methodsEncodingParametersInURL = ["GET"]
    serializer.queryEncoding = QueryEncoding(arrays: .indexed, booleans: .literal)
    serializer.timeoutInterval = .milliseconds(1500)
    serializer.totalTimeout = .seconds(90)
    serializer.handlesCookies = false
    serializer.cachePolicy = .returnCacheDataDontLoad
    serializer.networkServiceType = .background
    serializer.allowsCellularAccess = false
    return serializer
  }

  private func expectEqual(_ left: HTTPRequestSerializer, _ right: HTTPRequestSerializer) {
    #expect(left.headers == right.headers && left.stringEncoding == right.stringEncoding)
    #expect(left.methodsEncodingParametersInURL == right.methodsEncodingParametersInURL)
    #expect(left.queryEncoding == right.queryEncoding && left.timeoutInterval == right.timeoutInterval)
    #expect(left.totalTimeout == right.totalTimeout)
    #expect(left.handlesCookies == right.handlesCookies && left.networkServiceType == right.networkServiceType)
    #expect(left.allowsCellularAccess == right.allowsCellularAccess && left.cachePolicy == right.cachePolicy)
  }

  /// A copy keeps every setting, where AFNetworking's loses its timeout; a change of one is none of the other.
  @Test func testThatHTTPRequestSerializerCanBeCopied() {
    var serializer = requestSerializer
    let copy = serializer
    expectEqual(copy, serializer)
    serializer.setValue("w", forHeader: "X-Key")
    #expect(copy.value(forHeader: "X-Key") == "v")
  }

  /// An archive keeps every setting, defaults and all.
  @Test func testThatHTTPRequestSerializerCanBeArchived() throws {
    expectEqual(try archived(requestSerializer), requestSerializer)
    expectEqual(try archived(HTTPRequestSerializer()), HTTPRequestSerializer())
    var withoutGET = HTTPRequestSerializer()
    withoutGET.methodsEncodingParametersInURL = ["HEAD"]
    let request = try archived(withoutGET).request(method: "GET", url: "http://h/", parameters: ["a": 1])
    #expect(request.body.text == "a=1")
    var json = JSONRequestSerializer(writingOptions: [.sortedKeys])
    json.base = requestSerializer
    let unarchived = try archived(json)
    #expect(unarchived.writingOptions == [.sortedKeys])
    expectEqual(unarchived.base, requestSerializer)
    var list = PropertyListRequestSerializer(format: .binary)
    list.base = requestSerializer
    let unarchivedList = try archived(list)
    #expect(unarchivedList.format == .binary)
    expectEqual(unarchivedList.base, requestSerializer)
  }

  /// Credentials are not archived: AFNetworking writes them down.
  @Test func credentialsAreNotArchived() throws {
    var serializer = HTTPRequestSerializer()
    try serializer.setAuthorization(username: "user", password: "secret")
    serializer.setValue("session=secret", forHeader: "Cookie")
    serializer.setValue("Basic secret", forHeader: "proxy-authorization")
    serializer.setValue("secret", forHeader: "X-Api-Key")
    serializer.setValue("v", forHeader: "X-Key")
    serializer.setValue("https://app.example", forHeader: "Origin")
    serializer.setValue("keep-alive", forHeader: "Proxy-Connection")
    let unarchived = try archived(serializer)
    #expect(unarchived.value(forHeader: "Proxy-Authorization") == nil)
    #expect(unarchived.value(forHeader: "X-Api-Key") == nil)
    #expect(unarchived.value(forHeader: "Origin") == "https://app.example")
    #expect(unarchived.value(forHeader: "Proxy-Connection") == "keep-alive")
    #expect(unarchived.value(forHeader: "Authorization") == nil && unarchived.value(forHeader: "Cookie") == nil)
    #expect(unarchived.value(forHeader: "X-Key") == "v")
    let written = try text(serializer)
    #expect(!written.contains("secret"))
  }

  /// What would come back as something else is refused: closures, headers that cannot be sent.
  @Test func closuresAreRefused() throws {
    var serializer = HTTPRequestSerializer()
    serializer.queryStringSerialization = { _, _ in nil }
    #expect(throws: EncodingError.self) { try text(serializer) }
    serializer.queryStringSerialization = nil
    serializer.makeEncoder = { JSONEncoder() }
    #expect(throws: EncodingError.self) { try text(serializer) }
    var json = JSONRequestSerializer()
    json.makeEncoder = { JSONEncoder() }
    #expect(throws: EncodingError.self) { try text(json) }
    var broken = HTTPRequestSerializer()
    broken.setValue("a\r\nb", forHeader: "X-Key")
    #expect(throws: EncodingError.self) { try text(broken) }
  }

  /// An archive that somebody changed cannot break a request.
  @Test func brokenArchivesAreRefused() throws {
    let good = try text(requestSerializer)
    #expect(good.contains(#""X-Key""#))
    for (part, replacement) in [
      (#""X-Key""#, #""X Key""#), (#""v""#, #""v\r\nInjected: 1""#), ("indexed", "unheard-of"), ("background", "x"),
      ("returnCacheDataDontLoad", "x"),
    ] {
      let bad = Data(good.replacingOccurrences(of: part, with: replacement).utf8)
      #expect(throws: DecodingError.self) { try JSONDecoder().decode(HTTPRequestSerializer.self, from: bad) }
    }
  }

  // MARK: Response serializers

  @Test func testThatHTTPResponseSerializerCanBeCopied() {
    var serializer = HTTPResponseSerializer()
    serializer.acceptableStatusCodes = [100]
    serializer.acceptableContentTypes = ["test/type"]
    let copy = serializer
    serializer.acceptableStatusCodes = nil
    #expect(copy.acceptableStatusCodes == [100] && copy.acceptableContentTypes == ["test/type"])
  }

  /// Codes and types survive, nil among them.
  @Test func testThatHTTPResponseSerializerCanBeArchived() throws {
    var serializer = HTTPResponseSerializer()
    #expect(try archived(serializer).validation == serializer.validation)
    serializer.acceptableStatusCodes = nil
    serializer.acceptableContentTypes = ["test/type"]
    #expect(try archived(serializer).validation == serializer.validation)
  }

  @Test func testThatJSONResponseSerializerCanBeCopied() {
    var serializer = JSONResponseSerializer(readingOptions: [.fragmentsAllowed])
    serializer.removesKeysWithNullValues = true
    serializer.acceptableStatusCodes = [100]
    let copy = serializer
    serializer = JSONResponseSerializer()
    #expect(copy.readingOptions == [.fragmentsAllowed] && copy.removesKeysWithNullValues)
    #expect(copy.acceptableStatusCodes == [100] && copy.acceptableContentTypes == JSONResponseSerializer.contentTypes)
  }

  @Test func testThatJSONResponseSerializerCanBeArchived() throws {
    var serializer = JSONResponseSerializer(readingOptions: [.fragmentsAllowed])
    serializer.removesKeysWithNullValues = true
    let unarchived = try archived(serializer)
    #expect(unarchived.readingOptions == [.fragmentsAllowed] && unarchived.removesKeysWithNullValues)
    #expect(unarchived.validation == serializer.validation)
  }

  @Test func testThatPropertyListResponseSerializerCanBeArchived() throws {
    let serializer = PropertyListResponseSerializer()
    #expect(try archived(serializer).validation == serializer.validation)
  }

  /// Types, codes and scale, also those that are not the default.
  @Test func testThatImageResponseSerializerCanBeArchived() throws {
    var serializer = ImageResponseSerializer(imageScale: 2, acceptableContentTypes: ["test/type"])
    serializer.validation.acceptableStatusCodes = [100]
    let unarchived = try archived(serializer)
    #expect(unarchived.imageScale == 2 && unarchived.validation == serializer.validation)
    #expect(try archived(ImageResponseSerializer()).validation == ImageResponseSerializer().validation)
  }

  @Test func stringSerializerCanBeArchived() throws {
    let serializer = StringResponseSerializer(encoding: .isoLatin1)
    #expect(try archived(serializer).encoding == .isoLatin1)
    #expect(try archived(StringResponseSerializer()).encoding == nil)
  }

  /// The members survive with their types and settings, at any depth.
  @Test func testCompoundSerializerCanBeArchived() throws {
    let inner = CompoundResponseSerializer([ImageResponseSerializer(imageScale: 3)])
    var compound = CompoundResponseSerializer([JSONResponseSerializer(readingOptions: [.fragmentsAllowed]), inner])
    compound.acceptableStatusCodes = [200]
    let unarchived = try archived(compound)
    #expect(unarchived.validation == compound.validation && unarchived.responseSerializers.count == 2)
    let json = try #require(unarchived.responseSerializers[0] as? JSONResponseSerializer)
    #expect(json.readingOptions == [.fragmentsAllowed])
    let image = (unarchived.responseSerializers[1] as? CompoundResponseSerializer)?.responseSerializers.first
    #expect((image as? ImageResponseSerializer)?.imageScale == 3)
  }

  /// A serializer of a program's own.
  private struct Reversed: ResponseSerializer, ArchivableSerializer {
    static let archiveName = "reversed"
    var mark: String
    func serialize(_ response: Response?, data: Data?) throws -> Data { Data((data ?? Data()).reversed()) }
  }

  /// Members of a program's own are read if the decoder is told of them; what it is not told of is refused, and so is what cannot be written.
  @Test func archivesNameKnownTypesOnly() throws {
    let compound = CompoundResponseSerializer([Reversed(mark: "m")])
    let unarchived = try archived(compound, SerializerTypes([Reversed.self]))
    #expect((unarchived.responseSerializers.first as? Reversed)?.mark == "m")
    #expect(throws: DecodingError.self) { try archived(compound) }
    #expect(throws: EncodingError.self) { try archived(CompoundResponseSerializer([Anything()])) }
    // A request serializer in the place of a response serializer.
    let mixed = try text(CompoundResponseSerializer([HTTPResponseSerializer()]))
      .replacingOccurrences(of: #""http""#, with: #""propertyListRequest""#)
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode(CompoundResponseSerializer.self, from: Data(mixed.utf8))
    }
  }

  /// Each is read, and stands where the other belongs.
  @Test func kindsCannotBeExchanged() throws {
    let whole = Data(try text(ManagerArchive(HTTPSessionManager())).utf8)
    var members = try #require(JSONSerialization.jsonObject(with: whole) as? [String: Any])
    let (first, second) = (members["requestSerializer"], members["responseSerializer"])
    members["requestSerializer"] = second
    members["responseSerializer"] = first
    let exchanged = try JSONSerialization.data(withJSONObject: members)
    let error = #expect(throws: DecodingError.self) {
      try JSONDecoder().decode(ManagerArchive.self, from: exchanged)
    }
    guard case .typeMismatch? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  /// Every serializer of this module may be a member, or a manager's.
  @Test func everyOwnTypeIsKnown() throws {
    let members: [any ResponseSerializer] = [
      HTTPResponseSerializer(), JSONResponseSerializer(), PropertyListResponseSerializer(), StringResponseSerializer(),
      ImageResponseSerializer(), CompoundResponseSerializer([]),
    ]
    let read = try archived(CompoundResponseSerializer(members)).responseSerializers
    #expect(read.map { "\(type(of: $0))" } == members.map { "\(type(of: $0))" })
    let makers: [any HTTPRequestSerializing] = [
      HTTPRequestSerializer(), JSONRequestSerializer(), PropertyListRequestSerializer(),
    ]
    for serializer in makers {
      let manager = try HTTPSessionManager()
      manager.requestSerializer = serializer
      let read = try archived(ManagerArchive(manager)).requestSerializer
      #expect("\(type(of: read))" == "\(type(of: serializer))")
    }
  }

  /// What an older Lupine has written stays readable.
  @Test func namesStayWhatTheyAre() throws {
    #expect(HTTPRequestSerializer.archiveName == "httpRequest" && JSONRequestSerializer.archiveName == "jsonRequest")
    #expect(PropertyListRequestSerializer.archiveName == "propertyListRequest")
    #expect(HTTPResponseSerializer.archiveName == "http" && JSONResponseSerializer.archiveName == "json")
    #expect(PropertyListResponseSerializer.archiveName == "propertyList")
    #expect(StringResponseSerializer.archiveName == "string" && ImageResponseSerializer.archiveName == "image")
    #expect(CompoundResponseSerializer.archiveName == "compound")
    let written = try JSONSerialization.jsonObject(with: Data(text(requestSerializer).utf8))
    let members = try #require(written as? [String: Any])
    #expect(
      Set(members.keys) == [
        "headers", "stringEncoding", "methodsEncodingParametersInURL", "queryEncoding", "timeoutInterval",
        "totalTimeout", "handlesCookies", "cachePolicy", "networkServiceType", "allowsCellularAccess",
      ])
  }

  private struct Anything: ResponseSerializer {
    func serialize(_ response: Response?, data: Data?) throws -> Data { Data() }
  }

  // MARK: Managers

  private func configured() throws -> HTTPSessionManager {
    let manager = try HTTPSessionManager(baseURL: "https://user:secret@example.com/v1")
    var serializer = JSONRequestSerializer(writingOptions: [.sortedKeys])
    serializer.base.setValue("v", forHeader: "X-Key")
    manager.requestSerializer = serializer
    manager.responseSerializer = CompoundResponseSerializer([ImageResponseSerializer(), JSONResponseSerializer()])
    let authority = try CertificateAuthority()
    try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .certificate, pinnedCertificates: [authority.rootDER]))
    return manager
  }

  /// The unarchived manager has base URL, serializers and policy, and a session of its own; no credentials.
  @Test func testManagerCanBeArchived() throws {
    let manager = try configured()
    let archive = try ManagerArchive(manager)
    let written = try text(archive)
    #expect(!written.contains("secret"))
    let unarchived = try HTTPSessionManager(archive: try archived(archive))
    #expect(unarchived.baseURL == "https://example.com/v1/" && unarchived.session !== manager.session)
    #expect(unarchived.securityPolicy == manager.securityPolicy)
    let serializer = try #require(unarchived.requestSerializer as? JSONRequestSerializer)
    #expect(serializer.writingOptions == [.sortedKeys] && serializer.base.value(forHeader: "X-Key") == "v")
    let members = (unarchived.responseSerializer as? CompoundResponseSerializer)?.responseSerializers
    #expect(members?.count == 2 && members?.first is ImageResponseSerializer)
    let operations = try HTTPRequestOperationManager(archive: try archived(archive))
    #expect(operations.baseURL == "https://example.com/v1/" && operations.requestSerializer is JSONRequestSerializer)
    #expect(operations.securityPolicy == manager.securityPolicy)
    // No base URL is none.
    let bare = try HTTPSessionManager(archive: archived(ManagerArchive(HTTPSessionManager())))
    #expect(bare.baseURL == nil)
  }

  /// A policy that the base URL does not allow is refused, whoever wrote the archive.
  @Test func archivesCannotUnpin() throws {
    let changed = try text(ManagerArchive(configured())).replacingOccurrences(of: "https:", with: "http:")
    let archive = try JSONDecoder().decode(ManagerArchive.self, from: Data(changed.utf8))
    #expect(throws: SecurityPolicyError.self) { try HTTPSessionManager(archive: archive) }
  }

  /// A copy has what an archive has, and interceptors and retry policy besides.
  @Test func testManagerCanBeCopied() throws {
    let manager = try configured()
    manager.retryPolicy = RetryPolicy()
    manager.interceptors = [ClosureInterceptor()]
    let copy = try HTTPSessionManager(copying: manager)
    #expect(copy.baseURL == manager.baseURL && copy.securityPolicy == manager.securityPolicy)
    #expect(copy.requestSerializer is JSONRequestSerializer && copy.responseSerializer is CompoundResponseSerializer)
    #expect(copy.retryPolicy != nil && copy.interceptors.count == 1 && copy.session !== manager.session)
  }
}
