"""Shapes of machines' software: releases and images."""
