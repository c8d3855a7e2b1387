internal import Foundation
internal import HTTPTypes
internal import LupineRules

// What is archived of request serializers: headers and settings. Never credentials: the fields `Authorization`, `Proxy-Authorization` and `Cookie` are left
// out. A serializer with a closure, or with a header that cannot be sent, is refused, since it would come back as another one.

extension HTTPRequestSerializer: ArchivableSerializer {
  /// `httpRequest`.
  public static var archiveName: String { "httpRequest" }

  private enum CodingKeys: String, CodingKey {
    case headers, stringEncoding, methodsEncodingParametersInURL, queryEncoding, timeoutInterval, totalTimeout,
      handlesCookies, cachePolicy, networkServiceType, allowsCellularAccess
  }

  private struct Header: Codable {
    var name: String
    var value: String
  }

  /// Reads an archive. It has the headers of the process that wrote it, `User-Agent` and `Accept-Language` included. Source: `-initWithCoder:`.
  ///
  /// - Throws: `DecodingError`, also for a header that cannot be sent.
  public init(from decoder: any Decoder) throws {
    self.init()
    let container = try decoder.container(keyedBy: CodingKeys.self)
    fields = HTTPFields()
    for header in try container.decode([Header].self, forKey: .headers) {
      guard let name = HTTPField.Name(header.name), HTTPField.isValidValue(header.value) else {
        throw DecodingError.dataCorruptedError(
          forKey: .headers, in: container,
          debugDescription: "the header \(String(reflecting: header.name)) cannot be sent")
      }
      fields.append(HTTPField(name: name, value: header.value))
    }
    stringEncoding = .init(rawValue: try container.decode(UInt.self, forKey: .stringEncoding))
    methodsEncodingParametersInURL = try container.decode(Set<String>.self, forKey: .methodsEncodingParametersInURL)
    queryEncoding = try container.decode(QueryEncoding.self, forKey: .queryEncoding)
    timeoutInterval = try container.decodeIfPresent(Duration.self, forKey: .timeoutInterval)
    totalTimeout = try container.decodeIfPresent(Duration.self, forKey: .totalTimeout)
    handlesCookies = try container.decodeIfPresent(Bool.self, forKey: .handlesCookies)
    cachePolicy = try container.decodeIfPresent(RequestCachePolicy.self, forKey: .cachePolicy)
    networkServiceType = try container.decodeIfPresent(NetworkServiceType.self, forKey: .networkServiceType)
    allowsCellularAccess = try container.decodeIfPresent(Bool.self, forKey: .allowsCellularAccess)
  }

  /// Writes an archive: headers except credentials, and the settings. AFNetworking writes the headers alone, `Authorization` with them. Source:
  /// `-encodeWithCoder:`.
  ///
  /// - Throws: `EncodingError` if `queryStringSerialization` or `makeEncoder` is set, or a header that cannot be sent.
  public func encode(to encoder: any Encoder) throws {
    try refuseClosure(queryStringSerialization != nil, "queryStringSerialization", encoder)
    try refuseClosure(makeEncoder != nil, "makeEncoder", encoder)
    if let refusedHeader = refusedHeaders.min() {
      throw EncodingError.invalidValue(
        refusedHeader, .init(codingPath: encoder.codingPath, debugDescription: "a header that cannot be sent"))
    }
    var container = encoder.container(keyedBy: CodingKeys.self)
    let headers = fields.filter { !OriginRule.isCredential(lowercased: $0.name.canonicalName) }
    try container.encode(headers.map { Header(name: $0.name.rawName, value: $0.value) }, forKey: .headers)
    try container.encode(stringEncoding.rawValue, forKey: .stringEncoding)
    try container.encode(methodsEncodingParametersInURL.sorted(), forKey: .methodsEncodingParametersInURL)
    try container.encode(queryEncoding, forKey: .queryEncoding)
    try container.encodeIfPresent(timeoutInterval, forKey: .timeoutInterval)
    try container.encodeIfPresent(totalTimeout, forKey: .totalTimeout)
    try container.encodeIfPresent(handlesCookies, forKey: .handlesCookies)
    try container.encodeIfPresent(cachePolicy, forKey: .cachePolicy)
    try container.encodeIfPresent(networkServiceType, forKey: .networkServiceType)
    try container.encodeIfPresent(allowsCellularAccess, forKey: .allowsCellularAccess)
  }
}

/// A closure cannot be written down, and what comes back without it would be another serializer.
private func refuseClosure(_ isSet: Bool, _ name: String, _ encoder: any Encoder) throws {
  guard isSet else { return }
  throw EncodingError.invalidValue(
    name, .init(codingPath: encoder.codingPath, debugDescription: "\(name) is a closure, which cannot be archived"))
}

extension JSONRequestSerializer: ArchivableSerializer {
  /// `jsonRequest`.
  public static var archiveName: String { "jsonRequest" }

  private enum CodingKeys: String, CodingKey {
    case base, writingOptions
  }

  /// Reads an archive. Source: `-initWithCoder:`.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    self.init(writingOptions: try container.decode(JSONValue.WritingOptions.self, forKey: .writingOptions))
    base = try container.decode(HTTPRequestSerializer.self, forKey: .base)
  }

  /// Writes an archive; see `HTTPRequestSerializer`. Source: `-encodeWithCoder:`.
  ///
  /// - Throws: `EncodingError`, also if `makeEncoder` is set.
  public func encode(to encoder: any Encoder) throws {
    try refuseClosure(makeEncoder != nil, "makeEncoder", encoder)
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(writingOptions, forKey: .writingOptions)
    try container.encode(base, forKey: .base)
  }
}

extension PropertyListRequestSerializer: ArchivableSerializer {
  /// `propertyListRequest`.
  public static var archiveName: String { "propertyListRequest" }

  private enum CodingKeys: String, CodingKey {
    case base, format
  }

  /// Reads an archive. Source: `-initWithCoder:`.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let number = try container.decode(UInt.self, forKey: .format)
    guard let format = PropertyListSerialization.PropertyListFormat(rawValue: number) else {
      throw DecodingError.dataCorruptedError(
        forKey: .format, in: container, debugDescription: "\(number) is no format of property lists")
    }
    self.init(format: format)
    base = try container.decode(HTTPRequestSerializer.self, forKey: .base)
  }

  /// Writes an archive; see `HTTPRequestSerializer`. Source: `-encodeWithCoder:`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(format.rawValue, forKey: .format)
    try container.encode(base, forKey: .base)
  }
}
