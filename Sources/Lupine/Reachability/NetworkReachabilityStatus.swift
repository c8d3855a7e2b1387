/// How far the network reaches. The numbers are AFNetworking's.
///
/// Source: `AFNetworkReachabilityStatus`.
public enum NetworkReachabilityStatus: Int, Sendable, Hashable, Codable, CaseIterable {
  /// Nothing is known yet, or monitoring could not find out.
  case unknown = -1
  /// There is no way.
  case notReachable = 0
  /// Over a mobile network (`wwan`).
  case reachableViaWWAN = 1
  /// Over a wireless interface.
  case reachableViaWiFi = 2
  /// Over anything else: a cable, a virtual interface, or this machine itself. AFNetworking counts these as WiFi.
  case reachableViaEthernet = 3

  /// Whether there is a way.
  public var isReachable: Bool { rawValue > 0 }

  /// The status in English. Source: `AFStringFromNetworkReachabilityStatus`.
  public var localizedString: String {
    switch self {
    case .unknown: "Unknown"
    case .notReachable: "Not Reachable"
    case .reachableViaWWAN: "Reachable via WWAN"
    case .reachableViaWiFi: "Reachable via WiFi"
    case .reachableViaEthernet: "Reachable via Ethernet"
    }
  }
}
