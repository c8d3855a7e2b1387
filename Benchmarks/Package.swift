// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that peers never enter ours; it sees products only.
let package = Package(
  name: "LupineBenchmarks",
  dependencies: [.package(name: "Lupine", path: "..")],
  targets: [
    .executableTarget(
      name: "GetLoop",
      dependencies: [.product(name: "LupineSession", package: "Lupine")],
      swiftSettings: [.swiftLanguageMode(.v6)])
  ]
)
