internal import HTTPTypes
internal import LupineRules

/// What few requests set; see the properties of `Request` of the same names.
final class RequestOptions: Sendable {
  struct Values: Sendable {
    var sensitiveFields: Set<HTTPField.Name> = []
    var expectsContinue = false
    var timeoutInterval: Duration?
    var totalTimeout: Duration?
    var redirects: RedirectConfiguration?
    var acceptsCompressedContent: Bool?
    var maximumBufferedBodySize: Int?
    var maximumDecompressionRatio: Int?
    var cachePolicy: RequestCachePolicy?
    var handlesCookies = true
    var networkServiceType: NetworkServiceType?
    var allowsCellularAccess = true
    var credential: Credential?
    var proxy: ProxyConfiguration?
    var mainDocument: ParsedURL?
    var trailerNames: [HTTPField.Name] = []
  }

  /// Those of a request that sets none.
  static let usual = RequestOptions(Values())

  let values: Values
  /// Whether there is a `proxy`: each request is asked, and a proxy is a large value to look at.
  let hasProxy: Bool
  /// Whether there are `trailerNames`: each request with a body is asked.
  let hasTrailers: Bool
  /// Whether the `cachePolicy` forbids to load it; nil: it says nothing.
  let forbidsLoading: Bool?

  init(_ values: Values) {
    self.values = values
    hasProxy = values.proxy != nil
    hasTrailers = !values.trailerNames.isEmpty
    forbidsLoading = values.cachePolicy.map { $0 == .returnCacheDataDontLoad }
  }
}
