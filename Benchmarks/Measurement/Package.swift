// swift-tools-version: 6.2
import PackageDescription

// What our programs and the peers in Swift share: clocks, memory, latencies, options and the line of JSON. Apart from both, so that a
// peer builds nothing of Lupine.
let package = Package(
  name: "Measurement",
  products: [.library(name: "BenchmarkSupport", targets: ["BenchmarkSupport"])],
  targets: [
    .target(name: "CAllocator"),
    .target(name: "BenchmarkSupport", dependencies: ["CAllocator"], swiftSettings: [.swiftLanguageMode(.v6)]),
  ]
)
